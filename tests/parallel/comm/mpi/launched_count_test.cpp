#include <doctest/doctest.h>

#include <map>
#include <string>

#include <parallel/comm/mpi/launched_count.hpp>

namespace launched_count_test {

using variables = std::map<std::string, std::string>;

parallel::mpi::launched_count count(variables const& environment) {
  return parallel::mpi::count_launched([&](char const* name) {
    auto const found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST_CASE(
    "MPI launched count: Open MPI, MPICH, MVAPICH and srun steps give the number of processes") {
  CHECK(count({}).processes == 1);
  CHECK(count({}).variable.empty());
  for (char const* const name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    CAPTURE(name);
    CHECK(count({{name, "2"}}).processes == 2);
    CHECK(count({{name, "2"}}).variable == name);
    CHECK(count({{name, "1"}}).processes == 1);
    CHECK(count({{name, ""}}).processes == 1);
  }
  CHECK(count({{"PMI_SIZE", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}).processes == 4);
  CHECK(count({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "3"}}).processes == 3);
  CHECK(count({{"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "8"}}).processes == 1);
}

}  // namespace launched_count_test
