// kokkos::scope: initialises Kokkos and finalises it in the destructor, for any execution space of
// the host.
//
// Kokkos's Threads space, and its OpenMP space before version 4, accept work only from the thread
// that initialised Kokkos, but each stream has its own thread. So a scope starts a thread that
// initialises Kokkos, and for those spaces this thread submits the work of all streams. For other
// spaces each stream submits its own work, and a Kokkos::ScopeGuard does as well.
#pragma once

#include <atomic>
#include <exception>
#include <string_view>

#include <Kokkos_Core.hpp>

#include <parallel/core/error.hpp>
#include <parallel/device/host/stream.hpp>

namespace parallel::kokkos {

/// The execution space in which operations run.
using execution_space = Kokkos::DefaultHostExecutionSpace;

class scope {
 public:
  /// Calls Kokkos::initialize(). Throws `error` if Kokkos is initialised already.
  scope() : scope([] { Kokkos::initialize(); }) {}
  /// Calls Kokkos::initialize(argc, argv), which removes Kokkos's arguments from the program's.
  scope(int& argc, char** argv) : scope([&] { Kokkos::initialize(argc, argv); }) {}

  scope(scope&&) = delete;

  /// Finalises Kokkos. All kokkos::streams must be destroyed before.
  ~scope() {
    current_ = nullptr;
    thread_.enqueue([] {
      if (Kokkos::is_initialized()) Kokkos::finalize();
    });
    thread_.drain();
  }

  /// Whether the execution space accepts work only from the thread that initialised Kokkos.
  [[nodiscard]] static bool is_needed() {
    std::string_view const space = execution_space::name();
    return space == "Threads" || (space == "OpenMP" && KOKKOS_VERSION < 40000);
  }

  /// The scope that initialised Kokkos; null if none did.
  [[nodiscard]] static scope* current() { return current_; }

  /// Runs f on the thread that initialised Kokkos, after earlier calls by other threads, and
  /// returns when it is finished. Rethrows exceptions of f.
  template <class F>
  void run(F const& f) {
    pass_on([](void const* function) { (*static_cast<F const*>(function))(); }, &f);
  }

 private:
  template <class Initialise>
  explicit scope(Initialise const& initialise) {
    require(!Kokkos::is_initialized(), "a kokkos::scope initialises Kokkos, which is initialised");
    run(initialise);
    current_ = this;
  }

  /// It is no template, so it is compiled once for all calls of run.
  void pass_on(void (*call)(void const*), void const* function) {
    std::exception_ptr thrown;
    thread_.enqueue([&thrown, call, function] {
      try {
        call(function);
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
