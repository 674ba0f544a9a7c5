"""Operators of detectors, signals and volumes: what the predecessor gives for waves."""

import numpy as np

from operator_cases.sampling import wave

ROIS = np.array([[0, 0, 0, 3, 2], [0, 1.2, 0.3, 2.9, 1.8], [0, -1, -1, 9, 9]], "float32")


def steps(*shape, by, modulus, less):
    return (np.arange(np.prod(shape)) * by % modulus - less).reshape(shape).astype("int8")


def cases(case):
    for (op, attrs, field, fixed), (inputs, dtype, shape, values) in KNOWN.items():
        names = ", ".join(f"%{name}" for name in "abc"[:len(inputs)])
        case(op, f"{op}({names}{attrs}){field}", inputs, np.array(values).reshape(shape).astype(dtype), 2e-5, fixed=fixed)
    case("stft", "stft(%a, %b, n_fft=3, hop_length=3, win_length=3)", [np.arange(1, 7, dtype="float32"), np.array([4, 3, 2], "int32")],
         np.array([[[[16, 0], [43, 0]], [[-2, 0], [2.5, -2.598076]]]], "float32"), 2e-5)
    _suppression(case)
    _ragged(case)
    _adaptive_regions(case)


def _suppression(case):
    corners = np.array([[[0, 0, 1, 1], [1, 1.1, 0, 0.1], [2, 2, 3, 3], [2, 2, 3, 3.2]]] * 2, "float32")
    likely = np.array([[[9, 0.9, 0.2], [9, 0.8, 0.7], [9, 0.6, 0.7], [9, 0.65, 0.1]], [[0] * 3] * 4], "float32")
    attrs = "max_detections_per_class=2, max_detections=5, num_classes=2, iou_threshold=0.5f, score_threshold=0.2f"
    # By class the boxes 0, 3 and 1, 2: the others overlap these.
    best, none = [corners[0, 0], corners[0, 1], corners[0, 2], corners[0, 3]], np.zeros((5, 4), "float32")
    expected = [[np.stack(best + [none[0]]), none], [[0, 1, 1, 0, 0], [0] * 5], [[0.9, 0.7, 0.7, 0.65, 0], [0] * 5], [4, 0]]
    for field, values in enumerate(expected):
        case("vision.regular_non_max_suppression", f"vision.regular_non_max_suppression(%a, %b, {attrs}).{field}", [corners, likely],
             np.array(values, "float32"))
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]], "float32")
    scores = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3], [0.1, 0.2, 0.9, 0.3, 0.35, 0.9]]], "float32")
    arguments = [boxes, scores, np.int64(3), np.float32(0.5), np.float32(0.15)]
    kept = [[0, 0, 3], [0, 0, 0], [0, 0, 5], [0, 1, 2], [0, 1, 5], [0, 1, 4]]
    op, call = "vision.all_class_non_max_suppression", "vision.all_class_non_max_suppression(%a, %b, %c, %d, %e"
    case(op, call + ").0", arguments, np.array(kept + [[-1, -1, -1]] * 6))
    case(op, call + ").1", arguments, np.array([6]))
    case(op, call + ', output_format="tensorflow").0', arguments, np.array([[row[1:] for row in kept] + [[-1, -1]] * 6]))
    case(op, call + ', output_format="tensorflow").1', arguments, np.array([[0.95, 0.9, 0.3, 0.9, 0.9, 0.35] + [0] * 6], "float32"))
    flipped = boxes[:, :, [2, 3, 0, 1]].copy()
    case(op, call + ").0", [flipped, scores, np.int64(3), np.float32(0.5), np.float32(0.15)], np.array(kept + [[-1, -1, -1]] * 6))
    case(op, call + ").1", [boxes, scores, np.int64(0), np.float32(0), np.float32(0.15)], np.array([0]))


def _adaptive_regions(case):
    """Samples about one element apart; regions within the image, across its edge, and much larger than it."""
    images = wave(2, 3, 9, 7)
    rois = np.array([[0, 1, 2, 5.5, 7.25], [1, -3, 0, 6, 3], [1, -40, -30, 60, 55], [0, 2, 2, 2, 2], [0, 20, 20, 30, 30]], "float32")
    for mode, fold in (("avg", np.mean), ("max", np.max)):
        expected = np.zeros((len(rois), 3, 2, 3))
        for (n, c, y, x) in np.ndindex(expected.shape):
            top, down = _samples(rois[n, 2], rois[n, 4], 2, y)
            left, across = _samples(rois[n, 1], rois[n, 3], 3, x)
            values = [[_bilinear(images[int(rois[n, 0]), c], top + (i + 0.5) * down[0] / down[1], left + (j + 0.5) * across[0] / across[1])
                       for j in range(across[1])] for i in range(down[1])]
            expected[n, c, y, x] = fold(values)
        call = f'vision.roi_align(%a, %b, pooled_size=[2, 3], spatial_scale=1f, mode="{mode}")'
        case("vision.roi_align", call, [images, rois], expected.astype("float32"), 1e-4)


def _samples(begin, end, bins, number):
    """Where a bin begins; its length, and how many samples it has."""
    length = max(float(end) - float(begin), 1.0) / bins
    return float(begin) + number * length, (length, int(np.ceil(np.float32(length))))


def _bilinear(image, y, x):
    height, width = image.shape
    if y < -1 or x < -1 or y > height or x > width:
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    v, u = y - top, x - left
    return (image[top, left] * (1 - v) * (1 - u) + image[top, right] * (1 - v) * u
            + image[bottom, left] * v * (1 - u) + image[bottom, right] * v * u)


def _ragged(case):
    """Rows of which some have no element."""
    generator = np.random.default_rng(5)
    for rows, count in [(6, 4), (3, 9), (4, 0), (1, 1)]:
        indices = np.sort(generator.integers(0, rows, count)) * 10 + generator.integers(0, 10, count)
        indices = np.stack([indices // 10, indices % 10], 1).astype("int64").reshape(count, 2)
        values = generator.integers(1, 90, count).astype("int32")
        expected, filled = [], []
        for row in range(rows):
            own = [(tuple(index), value) for index, value in zip(indices, values) if index[0] == row]
            filled.append(not own)
            expected += own or [((row, 0), 7)]
        call = "sparse_fill_empty_rows(%a, %b, %c, %d)"
        arguments = [indices, values, np.array([rows, 10]), np.int32(7)]
        case("sparse_fill_empty_rows", call + ".0", arguments, np.array([index for index, _ in expected]).reshape(-1, 2))
        case("sparse_fill_empty_rows", call + ".1", arguments, np.array([value for _, value in expected], "int32"))
        case("sparse_fill_empty_rows", call + ".2", arguments, np.array(filled))


KNOWN = {
    ("vision.roi_align", ', pooled_size=[2, 2], spatial_scale=0.9f, sample_ratio=2, mode="avg"', '', ''): ([wave(1, 2, 3, 4), ROIS], "float32", (3, 2, 2, 2), [0.1810299, 0.1358527, -0.1503212, -0.3107488, -0.05943729, -0.1726351, -0.1652588, 0.1228827, -0.04462754, -0.1689325, -0.3361163, -0.436571, -0.1916017, -0.08135225, -0.05920526, 0.1695256, 0.2481523, 0, 0, 0, 0.2262873, 0, 0, 0]),
    ("vision.roi_align", ', pooled_size=[2, 2], spatial_scale=0.9f, sample_ratio=2, mode="max"', '', ''): ([wave(1, 2, 3, 4), ROIS], "float32", (3, 2, 2, 2), [0.4221834, 0.5242338, 0.03903037, 0.05929609, 0.3293488, -0.00126541, 0.2231584, 0.2379765, 0.1976298, 0.1664293, -0.1828831, -0.1447101, -0.1189188, 0.1027317, 0.1161784, 0.2676514, 0.8142977, 0, 0, 0, 0.9580138, 0, 0, 0]),
    ("vision.roi_pool", ', pooled_size=[2, 2], spatial_scale=0.9f', '', ''): ([wave(1, 2, 3, 4), ROIS], "float32", (3, 2, 2, 2), [0.6442177, 0.9854497, 0.3349881, 0.9881682, 0.8545989, 0.6695698, 0.9906074, 0.6695698, 0.9854497, 0.9854497, 0.6569866, 0.9881682, 0.3190983, 0.6695698, 0.8457468, 0.6695698, 0.9881682, 0, 0, 0, 0.9906074, 0, 0, 0]),
    ("vision.yolo_reorg", ', stride=2', '', ''): ([np.arange(64, dtype="float32").reshape(1, 4, 4, 4)], "float32", (1, 16, 2, 2), [0, 2, 4, 6, 16, 18, 20, 22, 32, 34, 36, 38, 48, 50, 52, 54, 1, 3, 5, 7, 17, 19, 21, 23, 33, 35, 37, 39, 49, 51, 53, 55, 8, 10, 12, 14, 24, 26, 28, 30, 40, 42, 44, 46, 56, 58, 60, 62, 9, 11, 13, 15, 25, 27, 29, 31, 41, 43, 45, 47, 57, 59, 61, 63]),
    ("vision.multibox_prior", ', sizes=[0.5f, 0.25f], ratios=[1f, 2f], clip=True', '', ''): ([wave(1, 2, 2, 3)], "float32", (1, 18, 4), [0, 0, 0.3333333, 0.5, 0.08333334, 0.125, 0.25, 0.375, 0, 0.07322331, 0.4023689, 0.4267767, 0.3333333, 0, 0.6666667, 0.5, 0.4166667, 0.125, 0.5833333, 0.375, 0.2642977, 0.07322331, 0.7357023, 0.4267767, 0.6666667, 0, 1, 0.5, 0.7500001, 0.125, 0.9166667, 0.375, 0.5976311, 0.07322331, 1, 0.4267767, 0, 0.5, 0.3333333, 1, 0.08333334, 0.625, 0.25, 0.875, 0, 0.5732233, 0.4023689, 0.9267767, 0.3333333, 0.5, 0.6666667, 1, 0.4166667, 0.625, 0.5833333, 0.875, 0.2642977, 0.5732233, 0.7357023, 0.9267767, 0.6666667, 0.5, 1, 1, 0.7500001, 0.625, 0.9166667, 0.875, 0.5976311, 0.5732233, 1, 0.9267767]),
    ("vision.multibox_transform_loc", ', threshold=0.3f, clip=False', '.0', ''): ([abs(wave(2, 3, 4)), wave(2, 16), abs(wave(1, 4, 4, by=1.1))], "float32", (2, 4, 6), [1, 0.6312667, -0.08806691, 0.9130634, 0.8965633, 0.04138792, 0, 0.3507832, 0.8789662, 0.7208353, 0.3412946, 0.953045, 0, 0.8715758, 0.5295726, 0.4583845, 1.00293, 0.4487723, 1, 0.9881682, 0.5571686, 0.9558153, 0.2886351, 0.7251925, 1, 0.9906074, -0.08189374, 0.9890958, 0.7320578, 0.1505332, 1, 0.8457468, 0.9081988, 0.7398396, 0.2281348, 1.001675, 1, 0.3031183, 0.5717226, 0.4583455, 0.9395038, 0.4503771, 0, 0.6695698, 0.5986838, 0.9675967, 0.2570967, 0.676361]),
    ("vision.multibox_transform_loc", ', threshold=0.3f, clip=False', '.1', ''): ([abs(wave(2, 3, 4)), wave(2, 16), abs(wave(1, 4, 4, by=1.1))], "int32", (2,), [4, 4]),
    ("stft", ', n_fft=4, hop_length=3, win_length=4, normalized=True, onesided=False', '', ''): ([wave(2, 12), wave(4, by=0.3)], "float32", (2, 4, 3, 2), [0.7114906, 0, -0.3909, 0, -0.3168019, 0, -0.2782134, 0.2428979, 0.09903355, -0.3908623, 0.17822, 0.1517527, -0.1550639, -3.225932e-08, 0.1928329, 1.350136e-08, -0.03963807, 1.86271e-08, -0.2782134, -0.2428979, 0.09903357, 0.3908623, 0.17822, -0.1517527, -0.4008595, 0, -0.3060277, 0, 0.7098534, 0, 0.1034648, -0.3916947, 0.1745132, 0.1578523, -0.2796695, 0.2323125, 0.1939298, 1.399504e-08, -0.04299875, 1.817831e-08, -0.1505143, -3.234955e-08, 0.1034649, 0.3916947, 0.1745132, -0.1578523, -0.2796695, -0.2323124]),
    ("dft", '', '.0', ''): ([wave(2, 5), wave(2, 5, by=1.3)], "float32", (2, 5), [2.827865, 1.270871, -0.2796555, -0.1621981, -3.656882, -2.819264, 3.039114, -0.2139114, -0.1019548, -1.657899]),
    ("dft", '', '.1', ''): ([wave(2, 5), wave(2, 5, by=1.3)], "float32", (2, 5), [-0.09216124, -0.2018274, -0.1835408, -0.05253524, 0.5300657, -0.05704832, 1.751121, 0.05471814, -0.3216515, -0.3515398]),
    ("dft", ', inverse=True', '.0', ''): ([wave(2, 5), wave(2, 5, by=1.3)], "float32", (2, 5), [0.565573, -0.7313764, -0.03243972, -0.05593104, 0.2541742, -0.5638528, -0.3315798, -0.02039089, -0.04278239, 0.6078226]),
    ("dft", ', inverse=True', '.1', ''): ([wave(2, 5), wave(2, 5, by=1.3)], "float32", (2, 5), [-0.01843225, 0.1060128, -0.01050696, -0.03670822, -0.0403654, -0.01140966, -0.07030806, -0.06433022, 0.01094351, 0.3502245]),
    ("nn.adaptive_avg_pool1d", ', output_size=[3]', '', ''): ([wave(1, 2, 7)], "float32", (1, 2, 3), [0.5432225, 0.7278824, -0.2957903, -0.5323018, 0.5539896, 0.7206218]),
    ("nn.adaptive_max_pool3d", ', output_size=[2, 3, 2]', '', ''): ([wave(1, 1, 3, 4, 5)], "float32", (1, 1, 2, 3, 2), [0.9906074, 0.9927664, 0.9881682, 0.9927664, 0.9881682, 0.9946448, 0.9962419, 0.9962419, 0.9962419, 0.9962419, 0.9975574, 0.9946448]),
    ("qnn.conv2d_transpose", ', 2, -1, 0.5f, 0.25f, strides=[2, 1], padding=[1, 0], output_padding=[1, 0]', '', 'b'): ([steps(1, 2, 3, 3, by=7, modulus=23, less=9), steps(2, 3, 2, 2, by=5, modulus=19, less=7)], "int32", (1, 3, 5, 4), [-2, -113, -165, -9, -72, 1, 37, -11, 68, 191, 47, -51, -54, 17, 53, -13, 46, 127, -17, -93, -7, -246, 11, 48, -58, 20, 38, -15, 82, 134, -161, 40, -44, 28, 46, -21, 56, 100, -195, 32, -12, -265, -3, 48, -44, 39, 39, -19, 96, 153, -160, 36, -34, 39, 39, -29, 66, 111, -202, 24]),
    ("sliding_window", ', axis=1, window_shape=[1, 3], strides=[1, 2]', '', ''): ([np.arange(20, dtype="float32").reshape(2, 2, 5)], "float32", (2, 2, 2, 1, 3), [0, 1, 2, 2, 3, 4, 5, 6, 7, 7, 8, 9, 10, 11, 12, 12, 13, 14, 15, 16, 17, 17, 18, 19]),
}
