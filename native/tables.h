/* tables.h - piecewise polynomials of degree 6 for erf and gelu: what 16 intervals have for coefficients.
 * Row 0: the centre c, where the value is (nearly) a float; row 1 + k: the coefficient of (x - c)^k. */
#ifndef GRADINO_TABLES_H
#define GRADINO_TABLES_H

#if defined(__CUDACC__)
#define GD_TABLE static __device__ const
#else
#define GD_TABLE static const
#endif

/* Phi(-t) exp(t^2/2), Phi the normal distribution (half of Mills' ratio over sqrt(pi/2)), for 0 <= t < 15. The interval is
 * given by the exponent and two bits of the mantissa of 1 + t; relative error 2^-27.4. */
GD_TABLE float gd_mills_table[8][16] = {
    {0x1.ff6566p-4f, 0x1.7fb77cp-2f, 0x1.3f7924p-1f, 0x1.bf644p-1f, 0x1.3f6d7ep+0f, 0x1.bf88acp+0f, 0x1.1f5df6p+1f, 0x1.5f622cp+1f,
     0x1.bf7ae4p+1f, 0x1.1f7438p+2f, 0x1.5f9de4p+2f, 0x1.9f66p+2f, 0x1.ffaf56p+2f, 0x1.3fa13ap+3f, 0x1.7f813cp+3f, 0x1.bf683ep+3f},
    {0x1.d0bc66p-2f, 0x1.84c9a2p-2f, 0x1.4b53p-2f, 0x1.1eac38p-2f, 0x1.d91a7ep-3f, 0x1.7ba22ep-3f, 0x1.3b3814p-3f, 0x1.0c1d2ap-3f,
     0x1.b408f6p-4f, 0x1.5bf612p-4f, 0x1.206b72p-4f, 0x1.ec547ep-5f, 0x1.92a70ap-5f, 0x1.4401acp-5f, 0x1.0ed602p-5f, 0x1.d123acp-6f},
    {-0x1.5e7e52p-2f, -0x1.06d43ep-2f, -0x1.938f7p-3f, -0x1.3c09aep-3f, -0x1.c56c96p-4f, -0x1.32bb96p-4f, -0x1.b56614p-5f, -0x1.440c2cp-5f,
     -0x1.b6dd88p-6f, -0x1.1cd7d8p-6f, -0x1.8be3e6p-7f, -0x1.22784ap-7f, -0x1.872e4ap-8f, -0x1.fd17bcp-9f, -0x1.64b678p-9f, -0x1.077d8p-9f},
    {0x1.a4f9d8p-3f, 0x1.224ca4p-3f, 0x1.9ad6a4p-4f, 0x1.29302p-4f, 0x1.7c70cp-5f, 0x1.be161ep-6f, 0x1.16e456p-6f, 0x1.6dc582p-7f,
     0x1.a3c9ep-8f, 0x1.c1ec74p-9f, 0x1.08aa0ap-9f, 0x1.4ffc46p-10f, 0x1.76cd1ep-11f, 0x1.8c44f8p-12f, 0x1.d2bceep-13f, 0x1.290fap-13f},
    {-0x1.b0457p-4f, -0x1.15ed32p-4f, -0x1.6f2fdep-5f, -0x1.f08312p-6f, -0x1.2016b6p-6f, -0x1.2a0e7p-7f, -0x1.4b8efcp-8f, -0x1.856dbp-9f,
     -0x1.7fd57cp-10f, -0x1.57e2a2p-11f, -0x1.594d72p-12f, -0x1.7d58bcp-13f, -0x1.624a94p-14f, -0x1.31a9c6p-15f, -0x1.2f5ffp-16f, -0x1.4d4a82p-17f},
    {0x1.89f74ap-5f, 0x1.dc88cep-6f, 0x1.284eeap-6f, 0x1.795d3p-7f, 0x1.91673cp-8f, 0x1.731d9cp-9f, 0x1.733dd4p-10f, 0x1.89fba6p-11f,
     0x1.5125a4p-12f, 0x1.fe2d78p-14f, 0x1.b850fep-15f, 0x1.a91cf6p-16f, 0x1.4ab66ep-17f, 0x1.d38202p-19f, 0x1.87f16p-20f, 0x1.742cccp-21f},
    {-0x1.4961bp-6f, -0x1.72bb66p-7f, -0x1.b5b72ap-8f, -0x1.0b138ap-8f, -0x1.072a68p-9f, -0x1.b5f23p-11f, -0x1.8c2cbp-12f, -0x1.80807cp-13f,
     -0x1.22a25cp-14f, -0x1.74a044p-16f, -0x1.157f14p-17f, -0x1.d7de24p-19f, -0x1.37f2dep-20f, -0x1.67aa5ep-22f, -0x1.fc9be4p-24f, -0x1.a048aap-25f},
    {0x1.fcbb92p-8f, 0x1.01579ep-8f, 0x1.25cb16p-9f, 0x1.767478p-10f, 0x1.3fb758p-11f, 0x1.e35748p-13f, 0x1.88ca4cp-14f, 0x1.66cf94p-15f,
     0x1.d8854ep-17f, 0x1.02816cp-18f, 0x1.517e3ep-20f, 0x1.029cf6p-21f, 0x1.1a74ecp-23f, 0x1.0b9074p-25f, 0x1.40a48ep-27f, 0x1.c877ep-29f},
};

/* erf(t), 0 <= t < 4, by quarters; the first is erf(t) - t = t (...), with centre 0; relative error 2^-28. */
GD_TABLE float gd_erf_table[8][16] = {
    {0x0p+0f, 0x1.7f5ed6p-2f, 0x1.3f9c94p-1f, 0x1.bf5eacp-1f, 0x1.1f69b8p+0f, 0x1.5f5e9ep+0f, 0x1.9f75cp+0f, 0x1.df631ap+0f,
     0x1.0f6718p+1f, 0x1.2f6ac2p+1f, 0x1.4f6176p+1f, 0x1.6f667p+1f, 0x1.8f6c74p+1f, 0x1.afad0ap+1f, 0x1.cfd3dep+1f, 0x1.ef5bfp+1f},
    {0x0p+0f, 0x1.9d32cap-2f, 0x1.3ecd7cp-1f, 0x1.911d8ap-1f, 0x1.c67aeap-1f, 0x1.e53f6p-1f, 0x1.f4e04p-1f, 0x1.fbdb8cp-1f,
     0x1.fe9c82p-1f, 0x1.ff96f6p-1f, 0x1.ffe458p-1f, 0x1.fff98cp-1f, 0x1.fffeaap-1f, 0x1.ffffc2p-1f, 0x1.fffff6p-1f, 0x1.fffffep-1f},
    {0x1.06eba8p-3f, 0x1.f62c04p-1f, 0x1.874848p-1f, 0x1.0d3f96p-1f, 0x1.4798c2p-2f, 0x1.5f43fp-3f, 0x1.4be166p-4f, 0x1.1548bap-5f,
     0x1.9c798ap-7f, 0x1.0c4e24p-8f, 0x1.34a484p-10f, 0x1.38a1bep-12f, 0x1.175d8ep-14f, 0x1.b3411ap-17f, 0x1.2c57eap-19f, 0x1.5ca9eap-22f},
    {-0x1.2406c4p-21f, -0x1.7802f6p-2f, -0x1.e8826ap-2f, -0x1.d68596p-2f, -0x1.6fcb8ep-2f, -0x1.e21ff6p-3f, -0x1.0d4d84p-3f, -0x1.039f2ap-4f,
     -0x1.b54aap-6f, -0x1.3e005ep-7f, -0x1.9459d4p-9f, -0x1.c0ac8cp-11f, -0x1.b3f4a2p-13f, -0x1.6f6402p-15f, -0x1.12115ep-17f, 0x1.ad2c6ep-18f},
    {-0x1.811e94p-2f, -0x1.e1db7p-3f, -0x1.cc6d82p-5f, 0x1.7a55dap-4f, 0x1.4c29fcp-3f, 0x1.441248p-3f, 0x1.d81cecp-4f, 0x1.15e77p-4f,
     0x1.12b2d6p-5f, 0x1.c9d1d8p-7f, 0x1.476b58p-8f, 0x1.9332b4p-10f, 0x1.ae0064p-12f, 0x1.8a29b2p-14f, 0x1.3baa5p-16f, 0x1.b87f76p-17f},
    {-0x1.485d1ep-11f, 0x1.54e60cp-3f, 0x1.69a0cp-3f, 0x1.ce0a9cp-4f, 0x1.d6007ep-6f, -0x1.ed96f2p-6f, -0x1.971edap-5f, -0x1.5b5cc8p-5f,
     -0x1.b4c01p-6f, -0x1.b4a0e4p-7f, -0x1.6950acp-8f, -0x1.f8073ap-10f, -0x1.28c46cp-11f, -0x1.2064acp-13f, -0x1.8ffbe8p-16f, -0x1.045af6p-10f},
    {0x1.e32b82p-4f, 0x1.73d058p-5f, -0x1.bc300ep-6f, -0x1.114178p-4f, -0x1.f58ep-5f, -0x1.fc7ecep-6f, -0x1.4965e6p-9f, 0x1.70f46ap-7f,
     0x1.9967dcp-7f, 0x1.14ad96p-7f, 0x1.1a139p-8f, 0x1.cd5696p-10f, 0x1.3a344ep-11f, 0x1.66735ep-13f, 0x1.6119c2p-15f, -0x1.418638p-11f},
    {-0x1.38c09cp-6f, -0x1.9c8eeap-5f, -0x1.56a2a4p-5f, -0x1.50567p-7f, 0x1.e97162p-7f, 0x1.6d2de8p-6f, 0x1.dcad7p-7f, 0x1.211d7p-8f,
     -0x1.a3b6fep-10f, -0x1.95170cp-9f, -0x1.3b2c2ep-9f, -0x1.2ab0f2p-10f, -0x1.4add96p-11f, -0x1.93b83p-12f, -0x1.4d5d78p-12f, 0x1.2789f8p-5f},
};

#endif
