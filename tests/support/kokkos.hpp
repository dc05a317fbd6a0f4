// with_kokkos: Kokkos for the tests of a program, from the first that asks for it to the end.
#pragma once

#include <Kokkos_Core.hpp>

namespace test {

inline void with_kokkos() { static Kokkos::ScopeGuard const initialised; }

}  // namespace test
