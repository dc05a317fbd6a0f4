// kernel_stream: runs an operation that is one kernel by that kernel's body on the host, and a
// comparison of such operations with the reference.
#pragma once

#include <tuple>
#include <utility>
#include <vector>

#include <parallel/device/cuda/grid.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"
#include "support/devices/guarded.hpp"

namespace parallel::testing {

struct kernel_stream {
  thread_order order;
};

/// Two blocks of 64 threads, however many a GPU would run.
template <ops::operation_arguments Arguments>
void run_operation(kernel_stream& s, Arguments const& a) {
  host_block::run_grid(2, 64, 0, s.order, kernel_of(cuda::one_kernel{}, a).body);
}

/// Calls run(stream, arrays...), which may write to any of the arrays, on a reference stream and on
/// streams of kernels in every order of threads: once with all arrays aligned, and with each of
/// them unaligned. Checks the arrays after each run.
template <class Run, class... T>
void compare_kernel(ops_support::tolerance const& bound, Run const& run,
                    std::vector<T> const&... arrays) {
  std::tuple expected(arrays...);
  reference::stream ref_stream;
  std::apply([&](auto&... array) { run(ref_stream, std::span(array)...); }, expected);
  for (unsigned unaligned = 0; unaligned <= sizeof...(T); ++unaligned)
    for (auto const order :
         {thread_order::ascending, thread_order::descending, thread_order::shuffled}) {
      unsigned number = 0;
      std::tuple<guarded<T>...> copies{
          std::pair(std::span<T const>(arrays), ++number == unaligned ? 1 : 0)...};
      kernel_stream stream{order};
      std::apply([&](auto&... copy) { run(stream, copy.span()...); }, copies);
      std::apply(
          [&](auto&... copy) {
            ops_support::check_within(bound, std::tuple(copy.values()...), expected);
            CHECK((copy.intact() && ...));
          },
          copies);
    }
}

}  // namespace parallel::testing
