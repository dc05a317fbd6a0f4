// The laws of communicators, as the tests call them.
#pragma once

#include <parallel/conformance/communicator.hpp>
#include <parallel/conformance/failures.hpp>

namespace test {

namespace comm_suite = parallel::conformance;

}  // namespace test
