"""Operators on images that read between elements: what the predecessor gives for waves."""

import itertools

import numpy as np

from operator_cases.case import random


def wave(*shape, by=0.7, scale=1.0):
    return (np.sin(np.arange(np.prod(shape)) * by) * scale).reshape(shape).astype("float32")


def cases(case):
    for (op, attrs), (inputs, shape, values) in KNOWN.items():
        names = ", ".join(f"%{name}" for name in "abc"[:len(inputs)])
        fixed = "b" if op == "image.dilation2d" else ""
        case(op, f"{op}({names}{attrs})", inputs, np.array(values, "float32").reshape(shape), 2e-5, fixed=fixed)
    for dtype in ("float32", "float64"):
        _deformable(case, dtype, (2, 4, 5, 6), (6, 2), (3, 2), groups=2, deformable_groups=2, strides=(2, 1), padding=(1, 2))
        _deformable(case, dtype, (1, 2, 4, 5), (3, 2), (2, 2), dilation=(2, 1))


def _deformable(case, dtype, shape, channels, kernel, strides=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, deformable_groups=1):
    """Equations 2 to 4 of Dai et al., "Deformable Convolutional Networks", 2017: data is 0 outside the image, so that a
    tap less than 1 outside it takes part of the edge. The predecessor gives 0 for taps above or left of the image."""
    extents = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(shape[2:], padding, dilation, kernel, strides)]
    taps = list(itertools.product(*map(range, kernel)))
    data = random(shape, dtype, "deformed")
    offset = random((shape[0], deformable_groups * len(taps) * 2, *extents), dtype, "offset")
    weight = random((*channels, *kernel), dtype, "filters")
    expected = np.zeros((shape[0], channels[0], *extents))
    rows, columns = np.arange(shape[2]), np.arange(shape[3])
    for n, o, i in itertools.product(range(shape[0]), range(channels[0]), range(channels[1])):
        c = o // (channels[0] // groups) * channels[1] + i
        first = c // (shape[1] // deformable_groups) * len(taps)
        for (t, tap), y, x in itertools.product(enumerate(taps), *map(range, extents)):
            p, q = (at * s - pad + k * d + offset[n, 2 * (first + t) + axis, y, x].astype(float)
                    for axis, (at, s, pad, k, d) in enumerate(zip((y, x), strides, padding, tap, dilation)))
            near = np.maximum(0, 1 - abs(rows - p))[:, None] * np.maximum(0, 1 - abs(columns - q))
            expected[n, o, y, x] += (near * data[n, c]).sum() * weight[o, i][tap]
    attrs = {"strides": strides, "padding": padding, "dilation": dilation}
    text = "".join(f", {name}={list(value)}" for name, value in attrs.items())
    case("nn.deformable_conv2d", f"nn.deformable_conv2d(%a, %b, %c{text}, groups={groups}, deformable_groups={deformable_groups})",
         [data, offset, weight], expected.astype(dtype), {"float32": 3e-5, "float64": 1e-9}[dtype])


IMAGE, GRID = wave(1, 2, 3, 4), wave(1, 2, 2, 3, by=1.3, scale=1.6)
KNOWN = {
    ("image.affine_grid", ', target_shape=[2, 3]'): ([wave(2, 2, 3)], (2, 2, 2, 3), [0.3412321, 0.3412321, 0.3412321, 1.629667, 1.629667, 1.629667, -1.548981, -0.6857715, 0.1774379, -0.8790045, -0.01579517, 0.8474141, 1.222762, 0.351186, -0.5203897, -0.7421434, -1.613719, -2.485295, 0.3143678, 0.3311816, 0.3479955, 1.628341, 1.645155, 1.661969]),
    ("image.grid_sample", ', method="bilinear", padding_mode="zeros", align_corners=True'): ([IMAGE, GRID], (1, 2, 2, 3), [0.1355453, 0.00443577, 0.6047779, 0, -0.1194538, 0.2789716, 0.2311118, 0.02486595, -0.503112, 0.566773, 0.1310163, 0.1229625]),
    ("image.grid_sample", ', method="bilinear", padding_mode="zeros", align_corners=False'): ([IMAGE, GRID], (1, 2, 2, 3), [0, 0, 0.00970178, 0, 0, 0, 0, 0, -0.00988708, 0.04377764, 0, 0]),
    ("image.grid_sample", ', method="bilinear", padding_mode="border", align_corners=True'): ([IMAGE, GRID], (1, 2, 2, 3), [0.3369002, 0.02366245, 0.8953338, 0, -0.3145933, 0.6623809, 0.5744326, 0.1326466, -0.744824, 0.8545989, 0.3450442, 0.2919579]),
    ("image.grid_sample", ', method="bilinear", padding_mode="border", align_corners=False'): ([IMAGE, GRID], (1, 2, 2, 3), [0.3369002, 0.5267202, 0.8632094, 0, -0.6312667, 0.7193759, 0.5744326, -0.1358151, -0.8796958, 0.8545989, 0.9906074, 0.1740395]),
    ("image.grid_sample", ', method="bilinear", padding_mode="reflection", align_corners=True'): ([IMAGE, GRID], (1, 2, 2, 3), [-0.2297379, -0.06963286, 0.295406, 0.1265538, -0.183753, -0.2265723, 0.05643875, 0.1639857, -0.3400573, 0.4016163, 0.358033, 0.1484204]),
    ("image.grid_sample", ', method="bilinear", padding_mode="reflection", align_corners=False'): ([IMAGE, GRID], (1, 2, 2, 3), [-0.03901708, 0.3939021, 0.8632094, 0, -0.4193087, 0.1258121, 0.2307868, 0.08343751, -0.8796958, 0.8545989, 0.94323, 0.1664483]),
    ("image.grid_sample", ', method="nearest", padding_mode="zeros", align_corners=True'): ([IMAGE, GRID], (1, 2, 2, 3), [0, 0, 0.8632094, 0, 0, 0, 0, 0, -0.8796958, 0.8545989, 0, 0]),
    ("image.grid_sample", ', method="nearest", padding_mode="zeros", align_corners=False'): ([IMAGE, GRID], (1, 2, 2, 3), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    ("image.grid_sample", ', method="nearest", padding_mode="border", align_corners=True'): ([IMAGE, GRID], (1, 2, 2, 3), [0.6569866, 0.9881682, 0.8632094, 0, -0.6312667, 0.6569866, 0.3031183, -0.3820714, -0.8796958, 0.8545989, 0.9906074, 0.3031183]),
    ("image.grid_sample", ', method="nearest", padding_mode="border", align_corners=False'): ([IMAGE, GRID], (1, 2, 2, 3), [0.6569866, 0.9881682, 0.8632094, 0, -0.6312667, 0.6569866, 0.3031183, -0.3820714, -0.8796958, 0.8545989, 0.9906074, 0.3031183]),
    ("image.grid_sample", ', method="nearest", padding_mode="reflection", align_corners=True'): ([IMAGE, GRID], (1, 2, 2, 3), [-0.8715758, 0.6569866, 0.8632094, 0, 0.0168139, -0.8715758, 0.03362305, 0.3031183, -0.8796958, 0.8545989, 0.8457468, 0.03362305]),
    ("image.grid_sample", ', method="nearest", padding_mode="reflection", align_corners=False'): ([IMAGE, GRID], (1, 2, 2, 3), [0.6569866, 0.6569866, 0.8632094, 0, -0.6312667, 0.6569866, 0.3031183, 0.3031183, -0.8796958, 0.8545989, 0.9906074, 0.3031183]),
    ("image.grid_sample", ', method="bicubic", padding_mode="zeros", align_corners=True'): ([IMAGE, GRID], (1, 2, 2, 3), [0.2180508, -0.00476258, 0.9242126, -0.08239025, -0.1565466, 0.3944891, 0.3125832, 0.03874632, -0.774823, 0.8022457, 0.1407789, 0.1369655]),
    ("image.grid_sample", ', method="bicubic", padding_mode="zeros", align_corners=False'): ([IMAGE, GRID], (1, 2, 2, 3), [-0.0397066, -0.0468832, 0.00767292, -0.00732051, 0.07034141, -0.08734658, -0.06770182, 0.01150105, -0.00831406, 0.04894155, -0.1106945, -0.01450681]),
    ("image.grid_sample", ', method="bicubic", padding_mode="border", align_corners=True'): ([IMAGE, GRID], (1, 2, 2, 3), [0.4414671, -0.1405459, 1.114478, -0.09694364, -0.3258039, 0.7878525, 0.6935195, 0.2747669, -0.9299102, 1.089351, 0.279099, 0.3066008]),
    ("image.grid_sample", ', method="bicubic", padding_mode="border", align_corners=False'): ([IMAGE, GRID], (1, 2, 2, 3), [0.3666094, 0.5155639, 0.853528, -0.03754976, -0.6372529, 0.771067, 0.6250882, -0.1120888, -0.9215507, 0.9139806, 1.002811, 0.1398603]),
    ("image.grid_sample", ', method="bicubic", padding_mode="reflection", align_corners=True'): ([IMAGE, GRID], (1, 2, 2, 3), [-0.3545147, -0.0740501, 0.4229043, 0.07818019, -0.2847652, -0.3205048, 0.08727141, 0.2272387, -0.5073579, 0.6123017, 0.5296817, 0.2115254]),
    ("image.grid_sample", ', method="bicubic", padding_mode="reflection", align_corners=False'): ([IMAGE, GRID], (1, 2, 2, 3), [-0.1401051, 0.4131957, 0.8695871, -0.1592144, -0.4700647, 0.04343237, 0.2420203, 0.08167094, -0.9448914, 1.148991, 0.9870179, 0.2065652]),
    ("image.grid_sample", ', layout="NCDHW", padding_mode="border", align_corners=False'): ([wave(1, 1, 2, 3, 4), wave(1, 3, 1, 2, 2, by=1.3, scale=1.2)], (1, 1, 1, 2, 2), [0.8148337, -0.2193965, -0.2020057, 0.1522217]),
    ("image.dilation2d", ', strides=[2, 1], padding=[1, 0, 1, 1], dilations=[1, 2]'): ([wave(1, 2, 4, 5), wave(2, 2, 3)], (1, 2, 3, 2), [1.320438, 1.507427, 1.520196, 1.851378, 1.65502, 0.9854497, 1.007421, 0.9881682, 0.8534695, 0.9881682, 0.9881682, 0.9881682]),
    ("nn.correlation", ', kernel_size=3, max_displacement=2, padding=[2, 2]'): ([wave(1, 2, 4, 5), wave(1, 2, 4, 5, by=1.1)], (1, 25, 2, 3), [0.00019549, 0.06051456, 0.08742043, 0.0513904, 0.09461216, 0.1127968, 0.06194283, 0.1162236, 0.1105884, 0.07989714, 0.08134667, 0.02992474, 0.09036503, 0.07970049, 0.01290452, 0.01163795, -0.04136629, -0.08564928, 0.01132818, -0.04391996, -0.07549516, -0.09320211, -0.1188739, -0.09299938, -0.08008818, -0.07226168, -0.06625664, -0.09619016, -0.07257773, -0.03259685, -0.04896595, -0.09270242, -0.1029475, 0.02393597, 0.00376839, -0.01199267, -0.05657723, -0.0486366, 0.00696375, 0.03403072, 0.00996761, -0.00114441, 0.02854887, 0.07225965, 0.109265, 0.02723994, 0.0023271, 0.01095447, 0.1035707, 0.11419, 0.08787828, 0.00470413, -0.00785648, 0.00027708, 0.06540969, 0.04755282, 0.02261078, -0.0229724, -0.03157853, 0.00083749, -0.02924315, -0.02048962, 0.00080862, 0.02303777, 0.0205535, -0.01189939, -0.04398896, -0.02001552, -0.00067205, 0.03317861, 0.00880078, -0.00989426, -0.03142604, -0.00377152, -0.0014183, 0.02536181, 0.00870452, 0.00292339, -0.00509719, 0.01659401, 0.01705075, 0.02320943, -0.00090411, -0.0178821, 0.0268019, 0.04287415, 0.01114843, -0.00430639, -0.03511484, -0.01734402, -0.01912147, -0.02875374, 0.00139549, 0.00772975, -0.02363393, -0.06066586, -0.03369646, -0.01838611, 0.00040524, -0.05296796, -0.1060493, -0.119027, -0.02952041, -0.01716406, -0.00102784, -0.1015561, -0.09103101, -0.04731452, -0.02666084, 0.00281501, 0.02841895, -0.02022168, 0.0234667, 0.03794508, 0.00533391, 0.03777064, 0.02704179, 0.08321118, 0.06119271, 0.04425351, 0.00295273, 0.04113107, 0.08929072, 0.04086097, 0.1099788, 0.1175744, 0.05879256, 0.1104432, 0.1114605, 0.06477864, 0.07531737, 0.02057827, 0.07965247, 0.05834632, 0.01182531, -0.00236256, -0.03687567, -0.09890591, -0.02220898, -0.05751186, -0.05305122, -0.07698641, -0.1087707, -0.111273, -0.0998003, -0.06212743, -0.03926266, -0.06747891, -0.06278135, -0.0508953]),
    ("nn.correlation", ', kernel_size=1, max_displacement=2, stride1=2, stride2=2, padding=[1, 1], is_multiply=False'): ([wave(1, 2, 4, 5), wave(1, 2, 4, 5, by=1.1)], (1, 9, 1, 2), [0.7382043, 0.6566151, 0.7382043, 0.6566151, 0.7382043, 0.6566151, 0.7382043, 0.9723558, 0.734005, 1.237931, 0.7418053, 0.6566151, 0.7382043, 0.2908134, 0.814057, 1.472846, 0.949602, 0.6566151]),
}
