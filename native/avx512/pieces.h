/* pieces.h - float32 functions of one AVX-512 vector as polynomials of degree 6 on 16 intervals, whose coefficients are
 * looked up in registers: half the multiplications of their formulas in elementary.h, and so with other bits than
 * AVX2's. Where values lie beyond the intervals (but for tanh), that vector's are computed by those formulas, too. */
#ifndef GRADINO_AVX512_PIECES_H
#define GRADINO_AVX512_PIECES_H

#include "vmath.h"

/* Row 0: the centre c, where the value is nearly a float; row 1 + k: the coefficient of (x - c)^k. Relative errors are
 * 2^-26 and less. */

static const float gd_tanh_table[8][16] = {
    {0x0p+0f, 0x1.8004bep-2f, 0x1.4003d8p-1f, 0x1.c0081p-1f, 0x1.40015ep+0f, 0x1.c003cp+0f, 0x1.20093ep+1f, 0x1.600afcp+1f,
     0x1.c00294p+1f, 0x1.2004d2p+2f, 0x1.6005f2p+2f, 0x1.ap+2f, 0x1p+3f, 0x1.4p+3f, 0x1.4p+3f, 0x1.4p+3f},
    {0x0p+0f, 0x1.6ef96p-2f, 0x1.1bf728p-1f, 0x1.686a62p-1f, 0x1.b253p-1f, 0x1.e1fcd4p-1f, 0x1.f4c172p-1f, 0x1.fbd5cp-1f,
     0x1.ff1136p-1f, 0x1.ffdfacp-1f, 0x1.fffbap-1f, 0x1.ffff68p-1f, 0x1.fffff8p-1f, 0x1p+0f, 0x1p+0f, 0x1p+0f},
    {0x1.6ee1a4p-28f, 0x1.be3e4p-1f, 0x1.6281dp-1f, 0x1.024a5p-1f, 0x1.1f2272p-2f, 0x1.d21fbap-4f, 0x1.63de42p-5f, 0x1.097a74p-6f,
     0x1.dd26e8p-9f, 0x1.02993p-11f, 0x1.180066p-14f, 0x1.2f6076p-17f, 0x1.e373fep-22f, 0x0p+0f, 0x0p+0f, 0x0p+0f},
    {-0x1.a25734p-20f, -0x1.3fd7d8p-2f, -0x1.893bc2p-2f, -0x1.6ba3dcp-2f, -0x1.e72584p-3f, -0x1.b6cceep-4f, -0x1.5c0d8p-5f, -0x1.075198p-6f,
     -0x1.dc478ep-9f, -0x1.028878p-11f, -0x1.17fdcap-14f, -0x1.18ef02p-17f, -0x1.c626e2p-23f, 0x0p+0f, 0x0p+0f, 0x0p+0f},
    {-0x1.5541fcp-2f, -0x1.6dc002p-3f, -0x1.240044p-6f, 0x1.4f23ep-4f, 0x1.bbb252p-4f, 0x1.01bb1ap-4f, 0x1.bb944cp-6f, 0x1.595ae8p-7f,
     0x1.3c10e4p-9f, 0x1.582eep-12f, 0x1.74e5p-15f, 0x1.943842p-18f, 0x1.3f555p-22f, 0x0p+0f, 0x0p+0f, 0x0p+0f},
    {-0x1.505a0ap-10f, 0x1.584afap-3f, 0x1.1a636ep-3f, 0x1.f201bep-5f, -0x1.9c89f8p-7f, -0x1.816e24p-6f, -0x1.939cd8p-7f, -0x1.4e038cp-8f,
     -0x1.39d366p-10f, -0x1.57e3bcp-13f, -0x1.74df84p-16f, -0x1.5457b8p-17f, -0x1.a4b2bcp-21f, 0x0p+0f, 0x0p+0f, 0x0p+0f},
    {0x1.25dc2ep-3f, 0x1.373dd2p-6f, -0x1.bce6eap-5f, -0x1.e01d2cp-5f, -0x1.4272bep-6f, 0x1.c8ee68p-9f, 0x1.04817ap-8f, 0x1.f5bd8ap-10f,
     0x1.00fe84p-11f, 0x1.1e37bap-14f, 0x1.3720eap-17f, 0x1.4f499ap-20f, 0x1.254e92p-24f, 0x0p+0f, 0x0p+0f, 0x0p+0f},
    {-0x1.33bf04p-5f, -0x1.1ae5d8p-4f, -0x1.885518p-6f, 0x1.94a9f4p-7f, 0x1.ef9212p-7f, 0x1.14cd54p-9f, -0x1.791726p-11f, -0x1.1eacd2p-11f,
     -0x1.4aa766p-13f, -0x1.7b4152p-16f, -0x1.9e1ae8p-19f, 0x1.3802e8p-16f, 0x1.ad41acp-22f, 0x0p+0f, 0x0p+0f, 0x0p+0f},
};
static const float gd_silu_table[8][16] = {
    {0x0p+0f, 0x1.80058p-1f, 0x1.800316p+0f, 0x1.200b86p+1f, 0x1.800412p+1f, 0x1.e0051ap+1f, 0x1.20016ap+2f, 0x1.50083p+2f,
     0x1.8005f4p+2f, 0x1.b002b4p+2f, 0x1.e007bep+2f, 0x1.08047ap+3f, 0x1.200388p+3f, 0x1.380548p+3f, 0x1.500054p+3f, 0x1.6805bap+3f},
    {0x0p+0f, 0x1.eccb88p-3f, 0x1.18342p-2f, 0x1.b74c9ap-3f, 0x1.235cb6p-3f, 0x1.60e4b4p-4f, 0x1.94fefp-5f, 0x1.c0d57ap-6f,
     0x1.e5fda2p-7f, 0x1.02a402p-7f, 0x1.0f973p-8f, 0x1.1a4d1p-9f, 0x1.230348p-10f, 0x1.29cd2ap-11f, 0x1.2f2886p-12f, 0x1.32ae68p-13f},
    {0x1p-1f, 0x1.4252bcp-3f, -0x1.52579cp-5f, -0x1.946c96p-4f, -0x1.68dba4p-4f, -0x1.f55ebep-5f, -0x1.368c98p-5f, -0x1.69021p-6f,
     -0x1.93cbc4p-7f, -0x1.b80b46p-8f, -0x1.d67622p-9f, -0x1.f005c8p-10f, -0x1.02a4cap-10f, -0x1.0b3e0cp-11f, -0x1.12472p-12f, -0x1.176b1ep-13f},
    {-0x1.fffffap-3f, -0x1.8244cp-3f, -0x1.3fde24p-4f, -0x1.f8d0dap-8f, 0x1.08cd2cp-6f, 0x1.2221a6p-6f, 0x1.ab74fep-7f, 0x1.0fc1ccp-7f,
     0x1.40ce6ap-8f, 0x1.6a61eap-9f, 0x1.8d85a4p-10f, 0x1.ab54dcp-11f, 0x1.c47e44p-12f, 0x1.d956cep-13f, 0x1.eac7f4p-14f, 0x1.f84df4p-15f},
    {-0x1.b4e9d6p-20f, 0x1.845b42p-5f, 0x1.63e8eep-5f, 0x1.3c0e44p-6f, 0x1.04c0cep-8f, -0x1.7796c8p-10f, -0x1.2e1586p-9f, -0x1.e05e68p-10f,
     -0x1.3b402cp-10f, -0x1.7a9f56p-11f, -0x1.b03e02p-12f, -0x1.dde99ep-13f, -0x1.0265cp-13f, -0x1.12c1eap-14f, -0x1.20a764p-15f, -0x1.2bd67p-16f},
    {0x1.55a396p-6f, 0x1.d9b294p-8f, -0x1.dd98e2p-8f, -0x1.d57afep-8f, -0x1.9c99ap-9f, -0x1.9f7ff2p-11f, 0x1.4e6ccp-15f, 0x1.c3d9b4p-13f,
     0x1.8f3fa6p-13f, 0x1.105128p-13f, 0x1.4d7c32p-14f, 0x1.81921ap-15f, 0x1.ae11c4p-16f, 0x1.d3c5f8p-17f, 0x1.f43dd8p-18f, 0x1.0779e2p-18f},
    {-0x1.730934p-14f, -0x1.5ea55cp-8f, -0x1.aeffd2p-10f, 0x1.04359cp-10f, 0x1.d950dap-11f, 0x1.91da9p-12f, 0x1.be7c3ep-14f, 0x1.2762dep-17f,
     -0x1.f2bdf8p-17f, -0x1.03b344p-16f, -0x1.75748ep-17f, -0x1.d4749cp-18f, -0x1.12a80ap-18f, -0x1.35ee22p-19f, -0x1.53369ep-20f, -0x1.6c96eap-21f},
    {-0x1.f7eceep-10f, 0x1.1fb658p-14f, 0x1.04c124p-10f, 0x1.71c3ccp-13f, -0x1.fd2f88p-14f, -0x1.78e312p-14f, -0x1.310d02p-15f, -0x1.55b13ap-17f,
     -0x1.9f7a94p-20f, 0x1.7831e2p-21f, 0x1.1a7812p-20f, 0x1.9f99bcp-21f, 0x1.067f54p-21f, 0x1.47f31ep-22f, 0x1.67199ep-23f, 0x1.929edep-24f},
};
static const float gd_softplus_table[8][16] = {
    {0x1.800b82p-2f, 0x1.200124p+0f, 0x1.e005a6p+0f, 0x1.50082ep+1f, 0x1.b00052p+1f, 0x1.080a1ep+2f, 0x1.38047ap+2f, 0x1.6801ap+2f,
     0x1.9806fep+2f, 0x1.c80414p+2f, 0x1.f805ap+2f, 0x1.140844p+3f, 0x1.2c01c6p+3f, 0x1.440518p+3f, 0x1.5c0898p+3f, 0x1.740b76p+3f},
    {0x1.0bd478p-1f, 0x1.1fe4b4p-2f, 0x1.242cdp-3f, 0x1.1e63bep-4f, 0x1.139f78p-5f, 0x1.068b5cp-6f, 0x1.f2565cp-8f, 0x1.d7d284p-9f,
     0x1.be0604p-10f, 0x1.a5a324p-11f, 0x1.8e61bp-12f, 0x1.7826ccp-13f, 0x1.63a95p-14f, 0x1.4fe05ep-15f, 0x1.3d2e7p-16f, 0x1.2b8c64p-17f},
    {-0x1.a1193cp-2f, -0x1.f5ed72p-3f, -0x1.104a58p-3f, -0x1.149b5ap-4f, -0x1.0f09acp-5f, -0x1.0473b6p-6f, -0x1.f0728cp-8f, -0x1.d6f962p-9f,
     -0x1.bda4fp-10f, -0x1.a577c2p-11f, -0x1.8e4e52p-12f, -0x1.781e2ap-13f, -0x1.63a574p-14f, -0x1.4fdea6p-15f, -0x1.3d2dacp-16f, -0x1.2b8c0ep-17f},
    {0x1.ee68d4p-4f, 0x1.7aea02p-4f, 0x1.d82d34p-5f, 0x1.01ed6ap-5f, 0x1.061208p-6f, 0x1.004fc6p-7f, 0x1.ecafc6p-9f, 0x1.d5482p-10f,
     0x1.bce2f6p-11f, 0x1.a52104p-12f, 0x1.8e278ep-13f, 0x1.780cdcp-14f, 0x1.639dbp-15f, 0x1.4fdb2ep-16f, 0x1.3d2c1cp-17f, 0x1.2b8b5ep-18f},
    {-0x1.e8acf2p-8f, -0x1.019204p-6f, -0x1.ce2bbap-7f, -0x1.297652p-7f, -0x1.464e5p-8f, -0x1.4ae248p-9f, -0x1.437abep-10f, -0x1.3699fp-11f,
     -0x1.2793fap-12f, -0x1.184b84p-13f, -0x1.093aeep-14f, -0x1.f53674p-16f, -0x1.da116cp-17f, -0x1.bfc3ep-18f, -0x1.a6dfbep-19f, -0x1.8f603ep-20f},
    {-0x1.27953ep-8f, -0x1.bcbcd4p-11f, 0x1.84268ep-10f, 0x1.abe48ap-10f, 0x1.1a50f8p-10f, 0x1.35b0dp-11f, 0x1.39ab2ep-12f, 0x1.3224fep-13f,
     0x1.2596cep-14f, 0x1.1765a6p-15f, 0x1.08d9a2p-16f, 0x1.f4e738p-18f, 0x1.d9f8bp-19f, 0x1.bfbb08p-20f, 0x1.a6e194p-21f, 0x1.8f5d4cp-22f},
    {0x1.6a4eep-11f, 0x1.f20682p-11f, 0x1.202b54p-12f, -0x1.c2c074p-14f, -0x1.406c7ap-13f, -0x1.ae3f78p-14f, -0x1.d853fep-15f, -0x1.dde3a4p-16f,
     -0x1.d1a95cp-17f, -0x1.bec9aap-18f, -0x1.a8bf52p-19f, -0x1.92412ap-20f, -0x1.7cd094p-21f, -0x1.67fd9p-22f, -0x1.5408bcp-23f, -0x1.417228p-24f},
    {0x1.018c26p-12f, -0x1.dd6e42p-14f, -0x1.1d83f4p-13f, -0x1.2b60fap-15f, 0x1.0587d6p-17f, 0x1.90b862p-17f, 0x1.0da372p-17f, 0x1.2931d4p-18f,
     0x1.2a3542p-19f, 0x1.25668ep-20f, 0x1.15c33p-21f, 0x1.076c3ap-22f, 0x1.f0c6b8p-24f, 0x1.d9b0dcp-25f, 0x1.bef536p-26f, 0x1.ac2d1p-27f},
};
static const float gd_gelu_table[8][16] = {
    {0x0p+0f, 0x1.9806p-2f, 0x1.540546p-1f, 0x1.dc052ep-1f, 0x1.320424p+0f, 0x1.760218p+0f, 0x1.ba0532p+0f, 0x1.fe08c8p+0f,
     0x1.21042ep+1f, 0x1.43048ap+1f, 0x1.6503ecp+1f, 0x1.8709bap+1f, 0x1.a904acp+1f, 0x1.cb0a06p+1f, 0x1.ed0734p+1f, 0x1.07839ep+2f},
    {0x0p+0f, 0x1.19a7a4p-3f, 0x1.58868cp-3f, 0x1.4f9b2ap-3f, 0x1.1be8fp-3f, 0x1.aeedcp-4f, 0x1.29dbacp-4f, 0x1.7a2022p-5f,
     0x1.bafe3ap-6f, 0x1.e04fa4p-7f, 0x1.e2f2bep-8f, 0x1.c29ed8p-9f, 0x1.872276p-10f, 0x1.3b628cp-11f, 0x1.d99ad6p-13f, 0x1.4ad97cp-14f},
    {0x1p-1f, 0x1.9625bap-3f, 0x1.4e43aep-5f, -0x1.0829fp-4f, -0x1.e10d5p-4f, -0x1.0718dep-3f, -0x1.cef5b4p-4f, -0x1.608168p-4f,
     -0x1.de945ep-5f, -0x1.25f27p-5f, -0x1.4988dep-6f, -0x1.52be9ap-7f, -0x1.40db7p-8f, -0x1.18378ap-9f, -0x1.c4df16p-11f, -0x1.52b08p-12f},
    {-0x1.98845p-2f, -0x1.5b629ap-2f, -0x1.fed5p-3f, -0x1.2d1e6cp-3f, -0x1.c8bfdap-5f, 0x1.2e3c02p-7f, 0x1.6926aep-5f, 0x1.ba3ddep-5f,
     0x1.8ba6a4p-5f, 0x1.279a2cp-5f, 0x1.824474p-6f, 0x1.c2cdd2p-7f, 0x1.dc169ap-8f, 0x1.c99e7ep-9f, 0x1.92e9dp-10f, 0x1.45bd84p-11f},
    {-0x1.1e692cp-19f, 0x1.8106bap-4f, 0x1.022724p-3f, 0x1.01ab84p-3f, 0x1.99afa8p-4f, 0x1.fea302p-5f, 0x1.af9442p-6f, 0x1.24f4b2p-11f,
     -0x1.a63d12p-7f, -0x1.0da192p-6f, -0x1.d5b3c2p-7f, -0x1.4ddc86p-7f, -0x1.9a2e1ap-8f, -0x1.be4f84p-9f, -0x1.b4b57ap-10f, -0x1.8344dcp-11f},
    {0x1.107952p-4f, 0x1.6e77dap-5f, 0x1.e3c6eep-7f, -0x1.cce334p-7f, -0x1.07f8a8p-5f, -0x1.2b0488p-5f, -0x1.e98e48p-6f, -0x1.2c9538p-6f,
     -0x1.e4da78p-8f, -0x1.03dfdap-16f, 0x1.c06572p-9f, 0x1.080b14p-8f, 0x1.a96238p-9f, 0x1.16b2e8p-9f, 0x1.3a907ep-10f, 0x1.3995dp-11f},
    {-0x1.a11734p-13f, -0x1.445a72p-6f, -0x1.81bca2p-6f, -0x1.2eca92p-6f, -0x1.138edep-7f, 0x1.917fdp-10f, 0x1.f0d598p-8f, 0x1.25d5dep-7f,
     0x1.d02824p-8f, 0x1.0621bep-8f, 0x1.61d522p-10f, -0x1.d5e94p-13f, -0x1.a71922p-11f, -0x1.a5a456p-11f, -0x1.2dfe9ap-11f, -0x1.645cb4p-12f},
    {-0x1.36ce02p-7f, -0x1.4f1086p-8f, 0x1.4ab57ap-11f, 0x1.5c06cep-8f, 0x1.bb4d8cp-8f, 0x1.47eceep-8f, 0x1.2f0eacp-9f, -0x1.0d3d6p-12f,
     -0x1.d697eap-10f, -0x1.f4686ep-10f, -0x1.5e1ccap-10f, -0x1.46724p-11f, -0x1.2f986p-13f, 0x1.cfe3dep-14f, 0x1.50d124p-13f, 0x1.0d3eeap-13f},
};
static const float gd_gelu_tanh_table[8][16] = {
    {0x0p+0f, 0x1.9804aap-2f, 0x1.5404cp-1f, 0x1.dc06fep-1f, 0x1.3208ecp+0f, 0x1.7608e8p+0f, 0x1.ba0b6ap+0f, 0x1.fe03f6p+0f,
     0x1.210a1ap+1f, 0x1.43099p+1f, 0x1.650a9ap+1f, 0x1.8702fcp+1f, 0x1.a90788p+1f, 0x1.cb0162p+1f, 0x1.ed047ep+1f, 0x1.0780bcp+2f},
    {0x0p+0f, 0x1.19abp-3f, 0x1.589ed8p-3f, 0x1.4fddbcp-3f, 0x1.1c53e6p-3f, 0x1.afcc54p-4f, 0x1.2a4a64p-4f, 0x1.796e12p-5f,
     0x1.b5bf7ap-6f, 0x1.d177bep-7f, 0x1.c4134cp-8f, 0x1.8f96a8p-9f, 0x1.3efad2p-10f, 0x1.ca17d4p-12f, 0x1.252cfap-13f, 0x1.4cb746p-15f},
    {0x1p-1f, 0x1.964c5ep-3f, 0x1.503148p-5f, -0x1.06bb18p-4f, -0x1.e0224cp-4f, -0x1.0770c8p-3f, -0x1.d18954p-4f, -0x1.641646p-4f,
     -0x1.e44b76p-5f, -0x1.284dfap-5f, -0x1.4729cep-6f, -0x1.45e7aep-7f, -0x1.2357ep-8f, -0x1.d2013ap-10f, -0x1.4aaeeep-11f, -0x1.9e5cb4p-13f},
    {-0x1.98845p-2f, -0x1.5b25c6p-2f, -0x1.fe270ep-3f, -0x1.2d01b2p-3f, -0x1.ccdaa4p-5f, 0x1.10d4e2p-7f, 0x1.6327d8p-5f, 0x1.b99ee4p-5f,
     0x1.908a5cp-5f, 0x1.2ebd8ep-5f, 0x1.8d77bap-6f, 0x1.cc5cb8p-7f, 0x1.d7b1eap-8f, 0x1.abcf76p-9f, 0x1.558648p-10f, 0x1.de281ap-12f},
    {-0x1.2302b4p-19f, 0x1.821ce8p-4f, 0x1.01fa5p-3f, 0x1.006c58p-3f, 0x1.96b3c2p-4f, 0x1.fd1176p-5f, 0x1.b93bdep-6f, 0x1.8e332cp-10f,
     -0x1.910152p-7f, -0x1.0d3198p-6f, -0x1.e3f95cp-7f, -0x1.5f1392p-7f, -0x1.afce92p-8f, -0x1.ca6c3p-9f, -0x1.a55d54p-10f, -0x1.4f761ep-11f},
    {0x1.11d348p-4f, 0x1.6d7734p-5f, 0x1.d38446p-7f, -0x1.d9914p-7f, -0x1.063098p-5f, -0x1.2508f4p-5f, -0x1.df46f8p-6f, -0x1.2c619ap-6f,
     -0x1.032bc4p-7f, -0x1.3479cap-11f, 0x1.9e4f92p-9f, 0x1.0d9f82p-8f, 0x1.c83162p-9f, 0x1.306a68p-9f, 0x1.50a704p-10f, 0x1.3a0bc8p-11f},
    {-0x1.af3c3cp-13f, -0x1.49bf8p-6f, -0x1.83bb6cp-6f, -0x1.29756ep-6f, -0x1.03c452p-7f, 0x1.c16ee2p-10f, 0x1.dd4626p-8f, 0x1.165562p-7f,
     0x1.c0a972p-8f, 0x1.0f397p-8f, 0x1.aeaf88p-10f, -0x1.50261ap-16f, -0x1.98adaep-11f, -0x1.cbb6a6p-11f, -0x1.582a88p-11f, -0x1.90e958p-12f},
    {-0x1.3da5p-7f, -0x1.437558p-8f, 0x1.e082cep-11f, 0x1.6ee318p-8f, 0x1.b4a142p-8f, 0x1.3321aep-8f, 0x1.e3febap-10f, -0x1.b826b8p-12f,
     -0x1.9f5526p-10f, -0x1.d3b9eap-10f, -0x1.6a4dd8p-10f, -0x1.89158ep-11f, -0x1.c4ace4p-13f, 0x1.4b2262p-14f, 0x1.73584p-13f, 0x1.42c70cp-13f},
};

#define GD_PIECE_ROW(table, k, i) _mm512_permutexvar_ps(i, _mm512_loadu_ps((table)[k]))

/* The polynomial, with base for its constant. */
GD_VMATH __m512 gd_piece_on_ps512(const float table[8][16], __m512i i, __m512 t, __m512 base) {
    const __m512 d = _mm512_sub_ps(t, GD_PIECE_ROW(table, 0, i));
    __m512 p = _mm512_fmadd_ps(GD_PIECE_ROW(table, 7, i), d, GD_PIECE_ROW(table, 6, i));
    p = _mm512_fmadd_ps(p, d, GD_PIECE_ROW(table, 5, i));
    p = _mm512_fmadd_ps(p, d, GD_PIECE_ROW(table, 4, i));
    p = _mm512_fmadd_ps(p, d, GD_PIECE_ROW(table, 3, i));
    p = _mm512_fmadd_ps(p, d, GD_PIECE_ROW(table, 2, i));
    return _mm512_fmadd_ps(p, d, base);
}

/* Intervals of the same width: where 16 + step t + offset lies. */
GD_VMATH __m512 gd_even_piece_ps512(const float table[8][16], __m512 t, float step, float from) {
    const __m512 place = _mm512_fmadd_ps(t, _mm512_set1_ps(step), _mm512_set1_ps(from));
    const __m512i i = _mm512_srli_epi32(_mm512_castps_si512(place), 19); /* lookups take four bits of it */
    return gd_piece_on_ps512(table, i, t, GD_PIECE_ROW(table, 1, i));
}

/* Intervals by the exponent and two bits of the mantissa of 1 + t; the first has tanh(t) - t. From 9 on it is 1. */
GD_VMATH __m512 gd_tanh_own_ps512(__m512 x) {
    const __m512 t = _mm512_min_ps(_mm512_set1_ps(10.0f), _mm512_abs_ps(x)), shifted = _mm512_add_ps(t, _mm512_set1_ps(1.0f));
    const __m512i place = _mm512_sub_epi32(_mm512_castps_si512(shifted), _mm512_castps_si512(_mm512_set1_ps(1.0f)));
    const __m512i i = _mm512_srli_epi32(place, 21);
    const __mmask16 first = _mm512_cmplt_epu32_mask(place, _mm512_set1_epi32(1 << 21));
    const __m512 base = _mm512_mask_mov_ps(GD_PIECE_ROW(gd_tanh_table, 1, i), first, t);
    return gd_copysign_ps512(gd_piece_on_ps512(gd_tanh_table, i, t, base), x);
}

/* The same where an element of the vector lies beyond the intervals. */
#define GD_FAR(name, formula)                                                                                 \
    static __attribute__((noinline, unused)) __m512 gd_##name##_far_ps512(__m512 x, __m512 y, __mmask16 far) { \
        return _mm512_mask_mov_ps(y, far, formula);                                                           \
    }
#define GD_FAR_OR(name, y, far) (__builtin_expect(far, 0) ? gd_##name##_far_ps512(x, y, far) : (y))
GD_FAR(gelu, gd_gelu_ps512(x))
GD_FAR(gelu_tanh, gd_gelu_tanh_ps512(x))
GD_FAR(silu, gd_silu_ps512(x))

/* max(x, 0) - rest(|x|), as in elementary.h. */
#define GD_GATED_PIECES(name, end, step, from)                                                                \
    GD_VMATH __m512 gd_##name##_own_ps512(__m512 x) {                                                         \
        const __m512 t = _mm512_abs_ps(x);                                                                    \
        const __mmask16 far = _mm512_cmp_ps_mask(t, _mm512_set1_ps(end), _CMP_GE_OQ);                         \
        const __m512 rest = gd_even_piece_ps512(gd_##name##_table, t, step, from);                            \
        const __m512 y = _mm512_sub_ps(gd_positive_ps512(x), rest);                                           \
        return GD_FAR_OR(name, y, far);                                                                       \
    }
GD_GATED_PIECES(gelu, 4.24f, 16 / 4.25f, 16.0f)
GD_GATED_PIECES(gelu_tanh, 4.24f, 16 / 4.25f, 16.0f)
GD_GATED_PIECES(silu, 11.5f, 4 / 3.0f, 16.5f)

/* log(1 + exp(-t)) + max(z, 0), |z| = t: softplus with beta 1 and log_sigmoid. */
GD_VMATH __m512 gd_log1p_exp_ps512(__m512 z, __m512 t) {
    return _mm512_add_ps(_mm512_max_ps(_mm512_setzero_ps(), z), gd_even_piece_ps512(gd_softplus_table, t, 4 / 3.0f, 16.0f));
}

static __attribute__((noinline, unused)) __m512 gd_softplus_far_ps512(__m512 x, __m512 y, __mmask16 far) {
    const __m512 one = _mm512_set1_ps(1.0f);
    return _mm512_mask_mov_ps(y, far, gd_softplus_ps512(x, one, one, _mm512_set1_ps(INFINITY)));
}
GD_VMATH __m512 gd_softplus_own_ps512(__m512 x, __m512 threshold) {
    const __m512 t = _mm512_abs_ps(x), y = gd_log1p_exp_ps512(x, t);
    const __mmask16 far = _mm512_cmp_ps_mask(t, _mm512_set1_ps(11.75f), _CMP_GE_OQ);
    return _mm512_mask_mov_ps(GD_FAR_OR(softplus, y, far), _mm512_cmp_ps_mask(x, threshold, _CMP_GT_OQ), x);
}

GD_FAR(log_sigmoid, gd_log_sigmoid_ps512(x))
GD_VMATH __m512 gd_log_sigmoid_own_ps512(__m512 x) {
    const __m512 t = _mm512_abs_ps(x), z = _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));
    const __m512 y = _mm512_xor_ps(gd_log1p_exp_ps512(z, t), _mm512_set1_ps(-0.0f));
    const __mmask16 far = _mm512_cmp_ps_mask(t, _mm512_set1_ps(11.75f), _CMP_GE_OQ);
    return GD_FAR_OR(log_sigmoid, y, far);
}

#endif
