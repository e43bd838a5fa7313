"""Vector functions and sums of products with the same digits with and without AVX2 and AVX-512.

NumPy chooses its exp, log, expm1, log1p, sin, arctan2, powers and complex products by the processor (AVX-512 has other
polynomials), and so does BLAS the order of its sums, which also enters ``@`` and ``np.convolve``. Whatever a certified
value or a plan id depends on is computed by these functions: scalar calls of the C library, and sums in a fixed order.
The C library itself has other variants of exp, log and sin for processors without fused multiply-add (x86 before 2013).
"""

from typing import Any

import numpy as np
from scipy.special import boxcox, boxcox1p, inv_boxcox, inv_boxcox1p

Values = Any
"""A number or an array of float64, and for :func:`exp` also of complex128; the result is alike."""


def exp(x: Values) -> Values:
    """Return e^x: the inverse Box–Cox transform of λ = 0, one call of the C library per entry.

    >>> float(exp(1.0)), exp(np.zeros(2)).tolist()
    (2.718281828459045, [1.0, 1.0])
    """
    return np.exp(x) if np.iscomplexobj(x) else inv_boxcox(x, 0.0)


def log(x: Values) -> Values:
    """Return ln x: the Box–Cox transform of λ = 0.

    >>> float(log(2.0)), float(log(0.0)), float(log(1j).imag)
    (0.6931471805599453, -inf, 1.5707963267948966)
    """
    return np.log(x) if np.iscomplexobj(x) else boxcox(x, 0.0)


def expm1(x: Values) -> Values:
    """Return e^x − 1.

    >>> float(expm1(1e-20))
    1e-20
    """
    return np.expm1(x) if np.iscomplexobj(x) else inv_boxcox1p(x, 0.0)


def log1p(x: Values) -> Values:
    """Return ln(1 + x).

    >>> float(log1p(1e-20))
    1e-20
    """
    return np.log1p(x) if np.iscomplexobj(x) else boxcox1p(x, 0.0)


def sin(x: Values) -> Values:
    """Return sin x: the imaginary part of e^(ix).

    >>> float(sin(0.5))
    0.479425538604203
    """
    return np.exp(1j * np.asarray(x)).imag


def arctan2(y: Values, x: Values) -> Values:
    """Return the angle of x + iy: the imaginary part of its logarithm.

    >>> float(arctan2(1.0, 0.0))
    1.5707963267948966
    """
    return np.log(np.asarray(x) + 1j * np.asarray(y)).imag


def modulus(z: Values) -> Values:
    """Return |z| of a complex array.

    >>> float(modulus(np.complex128(3 + 4j)))
    5.0
    """
    return np.hypot(z.real, z.imag)


def times(a: Values, b: Values) -> Values:
    """Return the product of two complex arrays; NumPy fuses multiplications and additions where the processor can.

    >>> complex(times(np.complex128(1 + 2j), np.complex128(3 - 1j)))
    (5+5j)
    """
    result = np.empty(np.broadcast_shapes(np.shape(a), np.shape(b)), np.complex128)
    result.real = a.real * b.real - a.imag * b.imag
    result.imag = a.real * b.imag + a.imag * b.real
    return result


def power(a: Values, exponent: int) -> Values:
    """Return a complex array to a power of at least 1, by repeated squaring.

    >>> complex(power(np.complex128(1 + 1j), 5))
    (-4-4j)
    """
    result = a
    for digit in f"{exponent:b}"[1:]:
        result = times(result, result)
        result = times(result, a) if digit == "1" else result
    return result


def dot(a: Values, b: Values) -> Values:
    """Return a·b, as ``a @ b`` does, with the terms in their order.

    >>> dot(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 10.0])).tolist()
    [21.0, 43.0]
    """
    if np.ndim(b) == 1:
        return np.einsum("...j,j->...", a, b)
    return np.einsum("j,...jk->...k" if np.ndim(a) == 1 else "...ij,...jk->...ik", a, b)


def convolve(a: Values, b: Values) -> Values:
    """Return the convolution of two lists, as ``np.convolve``.

    >>> convolve(np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0])).tolist()
    [3.0, 10.0, 13.0, 10.0]
    """
    short, long = sorted((np.asarray(a, float), np.asarray(b, float)), key=len)
    padded = np.pad(long, len(short) - 1)
    return dot(np.lib.stride_tricks.sliding_window_view(padded, len(short)), short[::-1])
