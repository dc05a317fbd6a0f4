// operation: the form in which a device receives an operation: one struct of the operation's
// arguments, NAME_arguments<T>.
//
// ops::NAME(s, ...) checks shapes, so that a wrong shape is found before anything is enqueued. It
// then calls run_operation(s, NAME_arguments<T>{...}), found in the namespace of the stream. A
// device has one run_operation for each struct (ops/host/), or one for all: the reference and meta
// devices use the members that every struct has, and so does a device that passes operations on to
// another.
//
//   name        the name of the operation in profiles and errors
//   operands()  a tuple of the views that it writes (of elements), reads (of const elements), or
//               both (`updates`); the check of a model ignores an operation without this member
//   flops()     its floating-point operations; 0 without this member. Products, sums and
//               quotients count as one each, and so do exp, erf, tanh and roots; comparisons,
//               conversions and random numbers do not count. If the count depends on data, it is
//               the largest possible one: as if every label were trained on and every
//               sequence were a single document
//   compute()   the formula in plain loops: the oracle of every device. Most operations have
//               instead parts(), the number of parts that do not depend on each other (rows,
//               columns, runs of elements), and compute(part); devices may call it in any order
//               and in parallel
//   check()     throws `error` for values with which no part can be computed; runs before the
//               first part
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>

#include <parallel/core/tensor.hpp>
#include <parallel/device/meta/memory_access.hpp>

namespace parallel::ops {

using meta::updates;

/// An operation whose parts can be computed in any order, also at the same time.
template <class Arguments>
concept operation_in_parts = requires(Arguments const& a, index part) {
  Arguments::name;
  a.parts();
  a.compute(part);
};

/// An operation that is computed by one task.
template <class Arguments>
concept operation_as_whole = requires(Arguments const& a) {
  Arguments::name;
  a.compute();
};

/// The arguments of an operation as one value.
template <class Arguments>
concept operation_arguments = operation_in_parts<Arguments> || operation_as_whole<Arguments>;

/// Throws `error` if the operation cannot be computed for the values of its arguments.
template <operation_arguments Arguments>
void check(Arguments const& a) {
  if constexpr (requires { a.check(); }) a.check();
}

/// Converts from a stream of a device whose operations are not declared. A call converts to this
/// type only if the device has no run_operation of its own. The error message appears once per
/// stream type, however many operations are called.
struct undeclared_device {
  template <class Stream>
  undeclared_device(Stream&) {
    static_assert(!std::is_class_v<Stream>,
                  "the operations of this device are not declared; include them: "
                  "<parallel/ops/host.hpp> for the host, <parallel/ops/cuda.hpp> for a GPU");
  }
};
/// Makes the compiler say that the operations of a device are not declared.
template <operation_arguments Arguments>
void run_operation(undeclared_device, Arguments const&) {}

/// Computes the whole operation on the calling thread.
template <operation_arguments Arguments>
void compute(Arguments const& a) {
  check(a);
  if constexpr (operation_in_parts<Arguments>)
    for (index part = 0; part < a.parts(); ++part) a.compute(part);
  else
    a.compute();
}

}  // namespace parallel::ops

namespace parallel::ops::detail {

/// The number of elements of a flat array that make one part.
inline constexpr std::size_t run_elements = 1024;

/// The number of parts of a flat array.
template <class Array>
[[nodiscard]] constexpr index run_count(Array const& y) {
  return static_cast<index>((y.size() + run_elements - 1) / run_elements);
}

/// Calls f(i) for every element i of a part.
template <class Array, class F>
void for_each_in_run(index part, Array const& y, F const& f) {
  std::size_t const begin = static_cast<std::size_t>(part) * run_elements;
  std::size_t const end = y.size() - begin < run_elements ? y.size() : begin + run_elements;
  for (std::size_t i = begin; i < end; ++i) f(i);
}

}  // namespace parallel::ops::detail
