#!/usr/bin/env python3
"""The coefficients of ops/cuda/kernels/pointwise/activation.hpp.

Fits R(t) = Phi(-t) / 2^(c t^2) on [0, 13.5], where c is the float next to -log2(e) / 2, by u P(u) with
u = 1 / (1 + 0.3 t) and a polynomial P of degree 7: Remez' exchange for the least greatest relative error,
at 25 digits, then rounded to floats. What c lacks of its real number is thus in the coefficients, not in
the result. Needs mpmath; takes a second.
"""
import struct

import mpmath as mp

mp.mp.dps = 25
DEGREE, END, GRID = 7, mp.mpf("13.5"), 400


def as_float(x):
    return mp.mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


EXPONENT, PACE = as_float(-1 / mp.log(2) / 2), as_float(0.3)


def ratio(u):
    t = (1 / u - 1) / PACE
    return mp.erfc(t / mp.sqrt(2)) / 2 / mp.mpf(2) ** (EXPONENT * t * t)


def chebyshev(count):
    least = 1 / (1 + PACE * END)
    return [least + (1 - least) * (1 - mp.cos(mp.pi * i / (count - 1))) / 2 for i in range(count)]


def error(coefficients, u):
    return mp.polyval(coefficients[::-1], u) * u / ratio(u) - 1


def fit():
    nodes, grid = chebyshev(DEGREE + 2), chebyshev(GRID)
    while True:
        rows = [[u ** (j + 1) / ratio(u) for j in range(DEGREE + 1)] + [(-1) ** i]
                for i, u in enumerate(nodes)]
        *coefficients, level = mp.lu_solve(mp.matrix(rows), mp.matrix([1] * len(nodes)))
        errors = [error(coefficients, u) for u in grid]
        runs = [[0]]  # of errors of one sign
        for i in range(1, GRID):
            if (errors[i] > 0) != (errors[i - 1] > 0):
                runs.append([])
            runs[-1].append(i)
        peaks = [max(run, key=lambda i: abs(errors[i])) for run in runs]
        if max(map(abs, errors)) < 1.01 * abs(level) or len(peaks) != len(nodes):
            return coefficients
        nodes = [grid[i] for i in peaks]


coefficients = [as_float(c) for c in fit()]
print("2^(c t^2): c =", mp.nstr(EXPONENT, 10), " u = 1 / (1 + p t): p =", mp.nstr(PACE, 10))
for power, c in enumerate(coefficients):
    print(f"u^{power + 1}: {float(c):.9g}F")
print("greatest relative error:", mp.nstr(max(abs(error(coefficients, u)) for u in chebyshev(2000)), 3))
