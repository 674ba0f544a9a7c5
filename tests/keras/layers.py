"""Models of one layer or activation each, as Keras builds them: what tests/keras/live.py compares."""

import keras
import numpy as np
from keras import layers as L
from keras.src.applications.convnext import LayerScale
from keras.src.applications.inception_resnet_v2 import CustomScaleLayer

IMAGE, SERIES, VOLUME, VECTOR = (8, 10, 3), (7, 4), (5, 6, 4, 3), (6,)


def one(layer, *shapes, dtype="float32", call=None, batch=None):
    """A model of one layer on inputs of those shapes; `call` replaces the call."""
    inputs = [keras.Input(shape, dtype=dtype, batch_size=batch, name=f"x{i}") for i, shape in enumerate(shapes)]
    given = inputs[0] if len(inputs) == 1 else inputs
    return keras.Model(given, call(layer, *inputs) if call else layer(given))


def adapted_normalization():
    layer = L.Normalization(axis=-1)
    layer.adapt(np.random.default_rng(1).standard_normal((50, 6)).astype("float32") * 3 + 1)
    return layer


def attend(layer, q, v):
    return layer(q, v)


def recurrent(cell, **options):
    return lambda batch: one(L.RNN(cell(), **options), SERIES, batch=batch)


def masked(layer):
    """A layer behind an embedding whose zeros do not count."""
    def build(batch):
        x = keras.Input((7,), dtype="int32", batch_size=batch, name="x0")
        return keras.Model(x, layer()(L.Embedding(9, 4, mask_zero=True)(x)))
    return build


def states(layer, count):
    """A recurrent layer that gets its states and returns them."""
    def build(batch):
        x = keras.Input(SERIES, batch_size=batch, name="x0")
        given = [keras.Input((5,), batch_size=batch, name=f"s{i}") for i in range(count)]
        return keras.Model([x, *given], layer(5, return_sequences=True, return_state=True)(x, initial_state=given))
    return build


def simple(layer, *shapes, **options):
    return lambda batch: one(layer(), *shapes, batch=batch, **options)


LAYERS = {
    "AdaptiveAveragePooling1D": simple(lambda: L.AdaptiveAveragePooling1D(3), (7, 4)),
    "AdaptiveAveragePooling2D": simple(lambda: L.AdaptiveAveragePooling2D((3, 4)), IMAGE),
    "AdaptiveAveragePooling3D": simple(lambda: L.AdaptiveAveragePooling3D(2), VOLUME),
    "AdaptiveMaxPooling2D": simple(lambda: L.AdaptiveMaxPooling2D((3, 4)), IMAGE),
    "Activation": simple(lambda: L.Activation("gelu"), VECTOR),
    "ActivityRegularization": simple(lambda: L.ActivityRegularization(0.1), VECTOR),
    "Add": simple(L.Add, VECTOR, VECTOR, VECTOR),
    "AdditiveAttention": simple(L.AdditiveAttention, (5, 4), (6, 4)),
    "AlphaDropout": simple(lambda: L.AlphaDropout(0.5), VECTOR),
    "Attention": simple(lambda: L.Attention(use_scale=True), (5, 4), (6, 4), (6, 4)),
    "AttentionCausal": simple(L.Attention, (6, 4), (6, 4), call=lambda layer, q, v: layer([q, v], use_causal_mask=True)),
    "AttentionConcat": simple(lambda: L.Attention(score_mode="concat", use_scale=True), (5, 4), (6, 4)),
    "Average": simple(L.Average, VECTOR, VECTOR),
    "AveragePooling1D": simple(lambda: L.AveragePooling1D(2, padding="same"), SERIES),
    "AveragePooling2D": simple(lambda: L.AveragePooling2D((3, 2), strides=2, padding="same"), IMAGE),
    "AveragePooling3D": simple(lambda: L.AveragePooling3D(2), VOLUME),
    "BatchNormalization": simple(L.BatchNormalization, IMAGE),
    "BatchNormalizationNoScale": simple(lambda: L.BatchNormalization(scale=False, axis=1), IMAGE),
    "BiGRU": simple(lambda: L.Bidirectional(L.GRU(5, return_sequences=True)), SERIES),
    "BiLSTM": simple(lambda: L.Bidirectional(L.LSTM(5), merge_mode="sum"), SERIES),
    "BiLSTMStates": simple(lambda: L.Bidirectional(L.LSTM(5, return_state=True, return_sequences=True), merge_mode=None), SERIES),
    "CategoryEncoding": simple(lambda: L.CategoryEncoding(6, output_mode="one_hot"), (1,), dtype="int32"),
    "CategoryEncodingCount": simple(lambda: L.CategoryEncoding(6, output_mode="count"), (4,), dtype="int32"),
    "CategoryEncodingMulti": simple(lambda: L.CategoryEncoding(6), (4,), dtype="int32"),
    "CenterCrop": simple(lambda: L.CenterCrop(5, 7), IMAGE),
    "Concatenate": simple(L.Concatenate, (3, 4), (3, 2)),
    "Conv1D": simple(lambda: L.Conv1D(5, 3, strides=2, padding="same", activation="relu"), SERIES),
    "Conv1DTranspose": simple(lambda: L.Conv1DTranspose(5, 3, strides=2), SERIES),
    "Conv1Dcausal": simple(lambda: L.Conv1D(5, 3, padding="causal", dilation_rate=2), SERIES),
    "Conv2D": simple(lambda: L.Conv2D(5, (3, 2), padding="same"), IMAGE),
    "Conv2DFirst": simple(lambda: L.MaxPooling2D(2, data_format="channels_first"), (3, 8, 6)),
    "Conv2DTranspose": simple(lambda: L.Conv2DTranspose(5, 3, strides=2, padding="same"), IMAGE),
    "Conv2DTransposePadding": simple(lambda: L.Conv2DTranspose(4, 3, strides=2, padding="same", output_padding=1), IMAGE),
    "Conv2DTransposeWide": simple(lambda: L.Conv2DTranspose(4, 2, strides=3), IMAGE),
    "Conv2Dgroups": simple(lambda: L.Conv2D(6, 3, groups=3), IMAGE),
    "Conv3D": simple(lambda: L.Conv3D(4, 2, strides=(1, 2, 1)), VOLUME),
    "Conv3DTranspose": simple(lambda: L.Conv3DTranspose(4, 2, strides=2), VOLUME),
    "ConvLSTM1D": simple(lambda: L.ConvLSTM1D(4, 3, return_sequences=True), (3, 6, 2)),
    "ConvLSTM2D": simple(lambda: L.ConvLSTM2D(4, 3, padding="same"), (3, 6, 5, 2)),
    "ConvLSTM3D": simple(lambda: L.ConvLSTM3D(2, 2), (3, 4, 3, 4, 2)),
    "CustomScaleLayer": simple(lambda: CustomScaleLayer(0.3), VECTOR, VECTOR),
    "Cropping1D": simple(lambda: L.Cropping1D((1, 2)), SERIES),
    "Cropping2D": simple(lambda: L.Cropping2D(((1, 2), (0, 3))), IMAGE),
    "Cropping3D": simple(lambda: L.Cropping3D(((1, 0), (1, 1), (0, 1))), VOLUME),
    "Dense": simple(lambda: L.Dense(5, activation="tanh"), (3, 6)),
    "DepthwiseConv1D": simple(lambda: L.DepthwiseConv1D(3, depth_multiplier=2), SERIES),
    "DepthwiseConv2D": simple(lambda: L.DepthwiseConv2D(3, strides=2, padding="same"), IMAGE),
    "Discretization": simple(lambda: L.Discretization(bin_boundaries=[-1.0, 0.0, 0.5]), VECTOR),
    "DiscretizationOneHot": simple(lambda: L.Discretization(bin_boundaries=[-1.0, 0.0], output_mode="one_hot"), (1,)),
    "Dot": simple(lambda: L.Dot(axes=(2, 1)), (3, 4), (4, 5)),
    "DotNormalized": simple(lambda: L.Dot(axes=1, normalize=True), VECTOR, VECTOR),
    "Dropout": simple(lambda: L.Dropout(0.5), VECTOR),
    "ELU": simple(lambda: L.ELU(0.7), VECTOR),
    "EinsumDense": simple(lambda: L.EinsumDense("abc,cd->abd", output_shape=(None, 5), bias_axes="d"), (3, 6)),
    "EinsumDenseDots": simple(lambda: L.EinsumDense("...x,xy->...y", output_shape=5, bias_axes="y"), (3, 6)),
    "Embedding": simple(lambda: L.Embedding(9, 4), (7,), dtype="int32"),
    "Flatten": simple(L.Flatten, IMAGE),
    "GRU": simple(lambda: L.GRU(5), SERIES),
    "GRUv1": simple(lambda: L.GRU(5, reset_after=False, return_sequences=True, go_backwards=True), SERIES),
    "GRUMasked": masked(lambda: L.GRU(5, return_sequences=True)),
    "GRUStates": states(L.GRU, 1),
    "GaussianDropout": simple(lambda: L.GaussianDropout(0.5), VECTOR),
    "GaussianNoise": simple(lambda: L.GaussianNoise(0.5), VECTOR),
    "GlobalAveragePooling1D": simple(L.GlobalAveragePooling1D, SERIES),
    "GlobalAveragePooling1DMasked": masked(L.GlobalAveragePooling1D),
    "GlobalAveragePooling2D": simple(lambda: L.GlobalAveragePooling2D(keepdims=True), IMAGE),
    "GlobalAveragePooling3D": simple(L.GlobalAveragePooling3D, VOLUME),
    "GlobalMaxPooling1D": simple(L.GlobalMaxPooling1D, SERIES),
    "GlobalMaxPooling2D": simple(L.GlobalMaxPooling2D, IMAGE),
    "GlobalMaxPooling3D": simple(L.GlobalMaxPooling3D, VOLUME),
    "GroupNormalization": simple(lambda: L.GroupNormalization(2), (5, 4, 6)),
    "GroupedQueryAttention": simple(lambda: L.GroupQueryAttention(4, 4, 2), (5, 6), (7, 6), call=attend),
    "Identity": simple(L.Identity, VECTOR),
    "LSTM": simple(lambda: L.LSTM(5, recurrent_activation="hard_sigmoid", activation="relu"), SERIES),
    "LSTMBackwardsMasked": masked(lambda: L.LSTM(5, go_backwards=True, return_sequences=True)),
    "LSTMMasked": masked(lambda: L.LSTM(5)),
    "LSTMStates": states(L.LSTM, 2),
    "LSTMZeros": masked(lambda: L.LSTM(5, zero_output_for_mask=True)),
    "LSTMseq": simple(lambda: L.LSTM(5, return_sequences=True, use_bias=False), SERIES),
    "LayerNormalization": simple(L.LayerNormalization, SERIES),
    "LayerNormalizationAxes": simple(lambda: L.LayerNormalization(axis=(1, 2), center=False), (4, 5)),
    "LayerScale": simple(lambda: LayerScale(0.5, 6), VECTOR),
    "LeakyReLU": simple(lambda: L.LeakyReLU(0.2), VECTOR),
    "Masking": simple(L.Masking, SERIES),
    "MaxPooling1D": simple(lambda: L.MaxPooling1D(3, strides=2, padding="same"), SERIES),
    "MaxPooling2D": simple(lambda: L.MaxPooling2D((3, 2), padding="same"), IMAGE),
    "MaxPooling3D": simple(lambda: L.MaxPooling3D(2), VOLUME),
    "Maximum": simple(L.Maximum, VECTOR, VECTOR),
    "Minimum": simple(L.Minimum, VECTOR, VECTOR),
    "MultiHeadAttention": simple(lambda: L.MultiHeadAttention(2, 4), (5, 6), (7, 6), call=attend),
    "MultiHeadAttentionCausal": simple(lambda: L.MultiHeadAttention(2, 3, value_dim=5, output_shape=4), (5, 6),
                                       call=lambda layer, x: layer(x, x, use_causal_mask=True, return_attention_scores=True)),
    "MultiHeadAttentionMasked": masked(lambda: (lambda x: L.MultiHeadAttention(2, 4)(x, x))),
    "Multiply": simple(L.Multiply, (3, 4), (3, 1)),
    "Normalization": simple(adapted_normalization, VECTOR),
    "NormalizationInverse": simple(lambda: L.Normalization(mean=[1.0, 2, 3, 4, 5, 6], variance=[1.0, 2, 3, 4, 5, 6], invert=True), VECTOR),
    "PReLU": simple(lambda: L.PReLU(shared_axes=[1]), (3, 6)),
    "Permute": simple(lambda: L.Permute((2, 1, 3)), IMAGE),
    "RMSNormalization": simple(L.RMSNormalization, SERIES),
    "RNNstacked": recurrent(lambda: L.StackedRNNCells([L.LSTMCell(5), L.GRUCell(3), L.SimpleRNNCell(4)]), return_sequences=True),
    "RNNCell": recurrent(lambda: L.GRUCell(5), return_state=True),
    "RandomFlip": simple(L.RandomFlip, IMAGE),
    "ReLU": simple(lambda: L.ReLU(max_value=1.5, negative_slope=0.1, threshold=0.2), VECTOR),
    "RepeatVector": simple(lambda: L.RepeatVector(3), VECTOR),
    "Rescaling": simple(lambda: L.Rescaling([0.5, 2.0, 3.0], offset=-1.0), IMAGE),
    "Reshape": simple(lambda: L.Reshape((3, -1)), (2, 6)),
    "Resizing": simple(lambda: L.Resizing(5, 13), IMAGE),
    "ResizingNearest": simple(lambda: L.Resizing(5, 13, interpolation="nearest"), IMAGE),
    "ResizingBicubic": simple(lambda: L.Resizing(11, 13, interpolation="bicubic"), IMAGE),
    "SeparableConv1D": simple(lambda: L.SeparableConv1D(5, 3, padding="same"), SERIES),
    "SeparableConv2D": simple(lambda: L.SeparableConv2D(5, 3, strides=2, depth_multiplier=2, activation="relu"), IMAGE),
    "SimpleRNN": simple(lambda: L.SimpleRNN(5, return_sequences=True), SERIES),
    "Softmax": simple(lambda: L.Softmax(axis=(1, 2)), (3, 4)),
    "SpatialDropout2D": simple(lambda: L.SpatialDropout2D(0.5), IMAGE),
    "SpectralNormalization": simple(lambda: L.SpectralNormalization(L.Dense(5)), VECTOR),
    "Subtract": simple(L.Subtract, VECTOR, VECTOR),
    "TimeDistributed": simple(lambda: L.TimeDistributed(L.Conv2D(4, 3)), (3, 6, 5, 2)),
    "TimeDistributedModel": simple(lambda: L.TimeDistributed(keras.Sequential([keras.Input((4,)), L.Dense(3), L.Dense(2)])), SERIES),
    "UnitNormalization": simple(L.UnitNormalization, SERIES),
    "UpSampling1D": simple(lambda: L.UpSampling1D(3), SERIES),
    "UpSampling2D": simple(lambda: L.UpSampling2D((2, 3)), IMAGE),
    "UpSampling2DBilinear": simple(lambda: L.UpSampling2D((2, 3), interpolation="bilinear"), IMAGE),
    "UpSampling3D": simple(lambda: L.UpSampling3D(2), VOLUME),
    "ZeroPadding1D": simple(lambda: L.ZeroPadding1D((1, 2)), SERIES),
    "ZeroPadding2D": simple(lambda: L.ZeroPadding2D(((1, 2), (0, 3))), IMAGE),
    "ZeroPadding3D": simple(lambda: L.ZeroPadding3D(((1, 0), (1, 1), (0, 1))), VOLUME),
}

ACTIVATIONS = ("celu elu exponential gelu glu hard_shrink hard_sigmoid hard_silu hard_tanh leaky_relu linear log_sigmoid log_softmax mish "
               "relu relu6 selu sigmoid silu soft_shrink softmax softplus softsign sparse_plus sparse_sigmoid sparsemax squareplus tanh "
               "tanh_shrink").split()
for function in ACTIVATIONS:
    LAYERS[f"act_{function}"] = lambda batch, function=function: one(L.Activation(function), (3, 8), batch=batch)


def random_weights(model, seed=0):
    """Gives all weights random values, also those that Keras begins with 0 or 1; variances stay positive."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        value = rng.standard_normal(weight.shape).astype("float32") * 0.5
        weight.assign(abs(value) + 0.5 if "variance" in weight.path else value)
    for layer in model.layers:
        if isinstance(layer, L.Normalization):
            layer.finalize_state()  # computes with these weights, as a model that is loaded does


def random_inputs(model, batch=2, extents=5, seed=1):
    rng = np.random.default_rng(seed)
    values = []
    for given in model.inputs:
        shape = [batch, *(extent or extents for extent in given.shape[1:])]
        is_float = given.dtype.startswith("float")
        values.append(rng.standard_normal(shape).astype(given.dtype) if is_float else rng.integers(0, 6, shape).astype(given.dtype))
    return values


def outputs_of(model, values):
    given = values[0] if len(values) == 1 else values
    return [np.asarray(output) for output in keras.tree.flatten(model(given, training=False))]
