// kokkos::scope: Kokkos, initialised for as long as it lives, for any execution space of the host.
//
// Kokkos's Threads, and its OpenMP before version 4, take work from one thread alone, the one that
// initialised Kokkos; streams compute from threads of their own. So a scope initialises Kokkos on a
// thread that stays, and on those spaces this thread passes on the work of all streams. On others
// each stream gives its work itself, and a Kokkos::ScopeGuard serves as well.
#pragma once

#include <atomic>
#include <exception>
#include <string_view>

#include <Kokkos_Core.hpp>

#include <parallel/core/error.hpp>
#include <parallel/device/host/stream.hpp>

namespace parallel::kokkos {

using execution_space = Kokkos::DefaultHostExecutionSpace;

class scope {
 public:
  /// As Kokkos::initialize(); throws `error` where Kokkos is initialised already.
  scope() : scope([] { Kokkos::initialize(); }) {}
  /// Takes Kokkos's own arguments out of the program's: Kokkos::initialize(argc, argv).
  scope(int& argc, char** argv) : scope([&] { Kokkos::initialize(argc, argv); }) {}

  scope(scope const&) = delete;
  scope& operator=(scope const&) = delete;

  /// Finalises Kokkos; streams are gone by then.
  ~scope() {
    current_ = nullptr;
    thread_.enqueue([] {
      if (Kokkos::is_initialized()) Kokkos::finalize();
    });
    thread_.drain();
  }

  /// Whether the execution space takes work from the thread alone that initialised Kokkos.
  [[nodiscard]] static bool is_needed() {
    std::string_view const space = execution_space::name();
    return space == "Threads" || (space == "OpenMP" && KOKKOS_VERSION < 40000);
  }

  /// The scope that initialised Kokkos; null where something else did, or nothing.
  [[nodiscard]] static scope* current() { return current_; }

  /// Runs f on the thread that initialised Kokkos, after what others want there; returns when it is
  /// done. Rethrows what f throws.
  template <class F>
  void run(F const& f) {
    pass_on([](void const* what) { (*static_cast<F const*>(what))(); }, &f);
  }

 private:
  template <class Initialise>
  explicit scope(Initialise const& initialise) {
    require(!Kokkos::is_initialized(), "a kokkos::scope initialises Kokkos, which is initialised");
    run(initialise);
    current_ = this;
  }

  /// One function for all that is run: it compiles once.
  void pass_on(void (*call)(void const*), void const* what) {
    std::exception_ptr thrown;
    thread_.enqueue([&thrown, call, what] {
      try {
        call(what);
      } catch (...) {
        thrown = std::current_exception();
      }
    });
    thread_.synchronize();
    if (thrown) std::rethrow_exception(thrown);
  }

  inline static std::atomic<scope*> current_ = nullptr;
  host::stream thread_;
};

}  // namespace parallel::kokkos
