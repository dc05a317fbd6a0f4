// with_kokkos: initialises Kokkos for the tests of a program, from the first that needs it to the
// end.
#pragma once

#include <parallel/device/kokkos/scope.hpp>

namespace test {

inline void with_kokkos() { static parallel::kokkos::scope const initialised; }

}  // namespace test
