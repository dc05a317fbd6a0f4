// All operations on kokkos::stream. Kokkos::parallel_for runs the independent parts of an
// operation, each of which its arguments compute; an operation without parts runs on the stream's
// worker. Matrix products are those of the host: its engine, or its own product.
//
// Each part is computed as the reference computes it. So all results except those of products have
// the bits of reference::stream, on any number of threads.
#pragma once

#include <parallel/device/kokkos/device.hpp>
#include <parallel/ops/host/experts/grouped_matmul.hpp>
#include <parallel/ops/operation.hpp>

namespace parallel::kokkos {

/// Runs an operation by Kokkos::parallel_for over its parts.
template <ops::operation_arguments Arguments>
void run_operation(stream& s, Arguments const& a) {
  s.enqueue({a.name}, [=] {
    if constexpr (ops::operation_in_parts<Arguments>) {
      ops::check(a);
      stream::for_each_part(a.name, a.parts(), [=](index part) { a.compute(part); });
    } else {
      ops::compute(a);
    }
  });
}

/// Matrix products run as on the host, by its engine.
template <class C, class T>
void run_operation(stream& s, ops::matmul_arguments<C, T> const& a) {
  run_operation(static_cast<host::stream&>(s), a);
}
template <class T>
void run_operation(stream& s, ops::grouped_matmul_arguments<T> const& a) {
  run_operation(static_cast<host::stream&>(s), a);
}
template <class T>
void run_operation(stream& s, ops::grouped_matmul_weight_arguments<T> const& a) {
  run_operation(static_cast<host::stream&>(s), a);
}

}  // namespace parallel::kokkos
