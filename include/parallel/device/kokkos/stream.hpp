// kokkos::stream: a stream whose operations Kokkos runs (Edwards, Trott, Sunderland, 2014), on the
// execution space of the host that it was configured with: Serial, OpenMP, Threads or HPX.
//
// It is a host stream: tasks, events and exchanges keep one order, and its worker gives Kokkos each
// operation and waits for it. Made while Kokkos is initialised, and gone before it is finalised.
#pragma once

#include <utility>

#include <Kokkos_Core.hpp>

#include <parallel/core/error.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/device/host/stream.hpp>

namespace parallel::kokkos {

using execution_space = Kokkos::DefaultHostExecutionSpace;

class stream : public host::stream {
 public:
  /// `options.threads` are those of matrix products and exchanges; how many Kokkos uses is said
  /// where it is initialised. Throws `error` where it is not.
  explicit stream(host::stream_options options = {})
      : host::stream((require_kokkos(), std::move(options))) {}

  /// Calls f(part) for every part in [0, count), in any order and at once. Within a task; returns
  /// when all are done. f throws nothing, unless the execution space is Serial.
  template <class F>
  static void for_each_part(char const* name, index count, F const& f) {
    execution_space const space;
    Kokkos::parallel_for(name,
                         Kokkos::RangePolicy<execution_space, Kokkos::IndexType<index>,
                                             Kokkos::Schedule<Kokkos::Dynamic>>(space, 0, count),
                         f);
    space.fence();
  }

 private:
  static void require_kokkos() {
    require(Kokkos::is_initialized(),
            "a stream of Kokkos needs Kokkos::initialize, or a Kokkos::ScopeGuard, before it");
  }
};

}  // namespace parallel::kokkos
