// Run under mpirun with 1 to 4 ranks; every rank runs all tests.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/checked.hpp>
#include <parallel/comm/mpi/communicator.hpp>

#include "parallel/comm/suite.hpp"

namespace mpi_test {

using namespace parallel;
using namespace std::chrono_literals;
using test::comm_suite::message_of;

// The environment is made in main and handed to the tests here.
mpi::environment* environment = nullptr;

}  // namespace mpi_test

TEST_CASE("MPI gives the bits of the serial reference") {
  parallel::mpi::communicator comm(*mpi_test::environment, {.piece_bytes = 1000});
  CHECK_NOTHROW(test::comm_suite::check_all(comm));
}

int main(int argc, char** argv) {
  parallel::mpi::environment environment;
  mpi_test::environment = &environment;
  return doctest::Context(argc, argv).run();
}
