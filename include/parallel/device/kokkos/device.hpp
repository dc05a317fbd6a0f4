// kokkos::device: the host's memory, with streams whose operations Kokkos runs.
//
// Kokkos's execution spaces of the host reach the memory of host::device. So this device differs
// from host::device only in its streams. It is for portability, not speed: docs/kokkos.md.
#pragma once

#include <utility>

#include <Kokkos_Core.hpp>

#include <parallel/core/error.hpp>
#include <parallel/core/tensor.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/device/host/stream.hpp>
#include <parallel/device/kokkos/scope.hpp>

namespace parallel::kokkos {

/// A stream whose operations Kokkos runs (Edwards, Trott, Sunderland, 2014), on the execution space
/// of the host that it was configured with: Serial, OpenMP, Threads or HPX.
///
/// It is a host stream, so tasks, events and exchanges keep one order. Its worker submits each
/// operation to Kokkos and waits for it. The stream must be constructed after Kokkos is initialised,
/// by a scope or otherwise, and destroyed before Kokkos is finalised.
class stream : public host::stream {
 public:
  /// `options.threads` is the number of threads of matrix products and exchanges; Kokkos's own
  /// number is set when Kokkos is initialised. Throws `error` if Kokkos is not initialised.
  explicit stream(host::stream_options options = {})
      : host::stream((require_kokkos(), std::move(options))) {}

  /// Calls f(part) for every part in [0, count), in any order and concurrently; returns when all
  /// calls have returned. To be called within a task. f must not throw, unless the execution space
  /// is Serial. Throws `error` if Kokkos has been finalised.
  template <class F>
  static void for_each_part(char const* name, index count, F const& f) {
    auto const compute = [&] {
      require_initialised(Kokkos::is_initialized(), name);
      execution_space const space;
      Kokkos::parallel_for(name,
                           Kokkos::RangePolicy<execution_space, Kokkos::IndexType<index>,
                                               Kokkos::Schedule<Kokkos::Dynamic>>(space, 0, count),
                           f);
      space.fence();
    };
    if (!scope::is_needed()) return compute();
    auto* const owner = scope::current();
    require_initialised(owner != nullptr, name);
    owner->run(compute);
  }

 private:
  static void require_kokkos() {
    require(Kokkos::is_initialized(),
            "a stream of Kokkos needs a kokkos::scope, or Kokkos initialised otherwise, before it");
    require(!scope::is_needed() || scope::current() != nullptr, "Kokkos's ",
            execution_space::name(),
            " takes work from the thread alone that initialised it: initialise it by a "
            "kokkos::scope");
  }
  static void require_initialised(bool initialised, char const* name) {
    require(initialised, name,
            ": Kokkos was finalised before a stream that computes by it was gone");
  }
};

class device : public host::device {
 public:
  using stream_type = kokkos::stream;
  using host::device::device;
};

}  // namespace parallel::kokkos
