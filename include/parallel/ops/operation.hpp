// What a device is given of an operation: one struct of its arguments, NAME_arguments<T>.
//
// ops::NAME(s, ...) checks shapes, so that a wrong one is found before anything was enqueued, and
// calls run_operation(s, NAME_arguments<T>{...}), found in the namespace of the stream. A device
// has one for each struct (ops/host/), or one for all: the reference and meta devices do with what
// every struct says of itself, and so does a device that passes operations on to another.
//
//   name        what it is called in profiles and errors
//   operands()  a tuple of the views it writes (of elements), reads (of const elements), or both
//               (`updates`); without this it is not looked at by the check of a model
//   flops()     its floating-point operations; without this there are none. Products, sums and
//               quotients count as one each, and so do exp, erf, tanh and roots; comparisons,
//               conversions and random numbers do not. What depends on data is counted in full:
//               every label is trained on, and a sequence is one document
//   compute()   the formula in plain loops: the oracle of every device
#pragma once

#include <cstdint>
#include <tuple>

#include <parallel/device/meta/touched.hpp>

namespace parallel::ops {

using meta::updates;

template <class Arguments>
concept operation_arguments = requires(Arguments const& a) {
  Arguments::name;
  a.compute();
};

}  // namespace parallel::ops
