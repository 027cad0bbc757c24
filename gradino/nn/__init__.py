"""Layers, losses and the Module they are built from."""

from gradino.nn import functional as functional
from gradino.nn import init as init
from gradino.nn import utils as utils
from gradino.nn.activation import GELU, Dropout, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Softplus, Tanh
from gradino.nn.container import ModuleDict, ModuleList, Sequential
from gradino.nn.embedding import Embedding
from gradino.nn.linear import Identity, Linear
from gradino.nn.loss import CrossEntropyLoss, MSELoss
from gradino.nn.module import Module
from gradino.nn.normalization import LayerNorm, RMSNorm
from gradino.nn.parameter import Buffer, Parameter
from gradino.nn.rnn import LSTM, LSTMCell

__all__ = [
    "Buffer", "CrossEntropyLoss", "Dropout", "Embedding", "GELU", "Identity", "LSTM", "LSTMCell", "LayerNorm", "Linear", "LogSoftmax",
    "MSELoss", "Module", "ModuleDict", "ModuleList", "Parameter", "RMSNorm", "ReLU", "Sequential", "SiLU", "Sigmoid", "Softmax",
    "Softplus", "Tanh", "functional", "init", "utils",
]  # fmt: skip
