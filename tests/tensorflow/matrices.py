"""A function of TensorFlow's linear algebra and windows of images, and its example arguments. Factors whose signs are free are multiplied."""

import numpy as np
import tensorflow as tf

RANDOM = np.random.default_rng(4)
GIVEN = [RANDOM.standard_normal(shape).astype("float32") for shape in ((2, 5, 5), (2, 5, 3), (2, 7, 6, 2))]


def matrices(a, b, images):
    square = a + 4 * tf.eye(5)
    definite = tf.matmul(a, a, transpose_b=True) + tf.eye(5)
    factors, triangle = tf.linalg.cholesky(definite), tf.linalg.band_part(square, 0, -1)
    values, vectors = tf.linalg.eigh(definite)
    sign, logarithm = tf.linalg.slogdet(a)
    boxes = [[0.1, 0.2, 0.9, 0.8], [-0.3, 0.0, 0.5, 1.4], [1.0, 0.87, 0.03, 0.2]]
    crops = [tf.image.crop_and_resize(images, boxes, [0, 1, 0], [3, 4], method, 7.0) for method in ("bilinear", "nearest")]
    filters = tf.reshape(tf.range(12, dtype=tf.float32), [3, 2, 2]) / 5
    dilated = [tf.nn.dilation2d(images, filters, [1, *strides, 1], padding, "NHWC", [1, *rates, 1])
               for strides, padding, rates in (((1, 1), "SAME", (1, 1)), ((2, 1), "VALID", (1, 2)), ((2, 2), "SAME", (2, 1)))]
    patches = [tf.image.extract_patches(images, [1, 3, 2, 1], [1, *strides, 1], [1, *rates, 1], padding)
               for strides, padding, rates in (((1, 1), "VALID", (1, 1)), ((2, 3), "SAME", (1, 1)), ((1, 2), "VALID", (2, 3)))]
    tall, wide = [tf.matmul(*tf.linalg.qr(x)) for x in (b, tf.transpose(b, [0, 2, 1]))]
    singular, left, right = tf.linalg.svd(tf.transpose(b, [0, 2, 1]))
    restored = tf.matmul(left * singular[:, tf.newaxis], right, transpose_b=True)
    return [
        singular, restored, tf.linalg.svd(b, full_matrices=True, compute_uv=False), tf.abs(tf.matmul(*[tf.linalg.svd(b, full_matrices=True)[1]] * 2, transpose_b=True)),
        tf.linalg.inv(square), tf.linalg.inv(square, adjoint=True), tf.linalg.solve(square, b), tf.linalg.solve(square, b, adjoint=True),
        factors, tf.linalg.triangular_solve(factors, b), tf.linalg.triangular_solve(triangle, b, lower=False),
        tf.linalg.triangular_solve(factors, b, adjoint=True), tf.linalg.triangular_solve(factors[0], b),
        tf.linalg.det(a), sign, logarithm, values, tf.matmul(vectors * values[:, tf.newaxis], vectors, transpose_b=True),
        tall, wide, tf.abs(tf.linalg.qr(b, full_matrices=True)[1]), tf.linalg.expm(a / 4), *crops, *dilated, *patches,
        tf.math.in_top_k(tf.constant([4, 0, 2, 1, 3]), a[0], 2), tf.slice(images, [0, 1, 0, 0], [-1, 3, -1, -1])]
