"""Layers, losses and the Module they are built from."""

from gradino.nn import attention as attention
from gradino.nn import dropout, loss, parameters, rectifiers, shaping
from gradino.nn import functional as functional
from gradino.nn import init as init
from gradino.nn import utils as utils
from gradino.nn.activation import GELU, Dropout, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Softplus, Tanh
from gradino.nn.batchnorm import BatchNorm1d, BatchNorm2d, GroupNorm, InstanceNorm1d, InstanceNorm2d, LocalResponseNorm
from gradino.nn.container import ModuleDict, ModuleList, Sequential
from gradino.nn.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from gradino.nn.dropout import *  # noqa: F403
from gradino.nn.embedding import Embedding, EmbeddingBag
from gradino.nn.gru import GRU, RNN, GRUCell, RNNCell
from gradino.nn.linear import Identity, Linear
from gradino.nn.loss import *  # noqa: F403
from gradino.nn.module import Module
from gradino.nn.multi_head import MultiheadAttention, RotaryEmbedding
from gradino.nn.normalization import LayerNorm, RMSNorm
from gradino.nn.parameter import Buffer, Parameter
from gradino.nn.parameters import *  # noqa: F403
from gradino.nn.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AvgPool1d,
    AvgPool2d,
    LPPool1d,
    LPPool2d,
    MaxPool1d,
    MaxPool2d,
    MaxUnpool1d,
    MaxUnpool2d,
)
from gradino.nn.rectifiers import *  # noqa: F403
from gradino.nn.rnn import LSTM, LSTMCell
from gradino.nn.shaping import *  # noqa: F403
from gradino.nn.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from gradino.nn.upsampling import (
    ChannelShuffle,
    CircularPad1d,
    CircularPad2d,
    ConstantPad1d,
    ConstantPad2d,
    PixelShuffle,
    PixelUnshuffle,
    ReflectionPad1d,
    ReflectionPad2d,
    ReplicationPad1d,
    ReplicationPad2d,
    Upsample,
    UpsamplingBilinear2d,
    UpsamplingNearest2d,
    ZeroPad1d,
    ZeroPad2d,
)

__all__ = [
    "Buffer", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Dropout", "Embedding",
    "EmbeddingBag", "GELU", "GRU", "GRUCell", "Identity", "LSTM", "LSTMCell", "LayerNorm", "Linear", "LogSoftmax", "Module",
    "ModuleDict", "ModuleList", "Parameter", "RMSNorm", "RNN", "RNNCell", "ReLU", "Sequential", "SiLU", "Sigmoid", "Softmax",
    "Softplus", "Tanh", "attention", "functional", "init", "utils",
]  # fmt: skip
__all__ += [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AvgPool1d", "AvgPool2d", "BatchNorm1d",
    "BatchNorm2d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "LPPool1d", "LPPool2d", "LocalResponseNorm", "MaxPool1d",
    "MaxPool2d", "MaxUnpool1d", "MaxUnpool2d",
]  # fmt: skip
__all__ += [
    "ChannelShuffle", "CircularPad1d", "CircularPad2d", "ConstantPad1d", "ConstantPad2d", "PixelShuffle", "PixelUnshuffle",
    "ReflectionPad1d", "ReflectionPad2d", "ReplicationPad1d", "ReplicationPad2d", "Upsample", "UpsamplingBilinear2d",
    "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d",
    "MultiheadAttention", "RotaryEmbedding", "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip
__all__ += dropout.__all__ + loss.__all__ + parameters.__all__ + rectifiers.__all__ + shaping.__all__
