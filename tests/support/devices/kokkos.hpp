// Kokkos in a test program: the first test that needs it initialises it, the program's end
// finalises it.
#pragma once

#include <parallel/device/kokkos/scope.hpp>

namespace test {

/// Initialises Kokkos unless an earlier test of this program has done so.
inline void ensure_kokkos() { static parallel::kokkos::scope const initialised; }

}  // namespace test
