"""A function of TensorFlow's transforms and complex numbers, and its example arguments. Complex results have an axis of their parts."""

import numpy as np
import tensorflow as tf

RANDOM = np.random.default_rng(3)
GIVEN = [RANDOM.standard_normal(shape).astype("float32") for shape in ((2, 200), (2, 6, 10), (2, 6, 10))]


def pairs(values):
    return [np.stack([v.real, v.imag], -1) if np.iscomplexobj(v) else v for v in values]


def spectra(signal, x, y):
    z = tf.complex(x, y)
    frames = tf.signal.stft(signal, 32, 12)
    real = tf.signal.rfft(x)
    return [
        frames, tf.abs(frames), tf.signal.inverse_stft(frames, 32, 12, window_fn=tf.signal.inverse_stft_window_fn(12)), real,
        tf.signal.rfft(x, [16]), tf.signal.irfft(real), tf.signal.irfft(real, [9]), tf.signal.fft(z), tf.signal.ifft(tf.signal.fft(z) * z),
        tf.signal.fft2d(z), tf.signal.ifft2d(z), tf.signal.fft3d(z), tf.signal.rfft2d(x), tf.signal.irfft2d(tf.signal.rfft2d(x, [8, 8]), [8, 8]),
        tf.math.angle(z), tf.math.conj(z), tf.math.real(z) + tf.math.imag(z), z * z + tf.cast(x, tf.complex64), -z[:, 1:3], tf.transpose(z, [2, 0, 1]),
        tf.concat([z, tf.reverse(z, [1])], 2), tf.reduce_sum(z, 1), tf.signal.fftshift(z),
        z * tf.constant([1 + 2j, -0.5j] * 5, tf.complex64) + tf.constant(2 - 1j, tf.complex64), z - tf.ones_like(z) * 1j]
