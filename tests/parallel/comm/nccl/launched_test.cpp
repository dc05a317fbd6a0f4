#include <parallel/comm/nccl/launched.hpp>

#include <doctest/doctest.h>

#include <map>
#include <string>

#include <parallel/conformance/values.hpp>

namespace nccl_launched_test {

using variables = std::map<std::string, std::string>;

std::optional<parallel::nccl::launched_rank> launched_with(variables const& environment) {
  return parallel::nccl::read_launched_rank([&](char const* name) -> char const* {
    auto const found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}
std::string refusal(variables const& environment) {
  return parallel::conformance::message_of([&] { static_cast<void>(launched_with(environment)); });
}

TEST_CASE("nccl launched_rank: a process without a launcher's variables is not a rank of several") {
  CHECK(!launched_with({}));
  CHECK(!launched_with({{"WORLD_SIZE", "4"}}));  // a program's own variable
  // a batch script
  CHECK(!launched_with({{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}}));
  CHECK(!launched_with({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}}));
}

TEST_CASE("nccl launched_rank: torchrun, mpirun and srun give rank, ranks and local rank") {
  auto const torch = launched_with({{"WORLD_SIZE", "16"},
                                    {"RANK", "11"},
                                    {"LOCAL_RANK", "3"},
                                    {"MASTER_ADDR", "node0"},
                                    {"MASTER_PORT", "29500"}});
  REQUIRE(torch);
  CHECK(torch->launcher_name == "torchrun");
  CHECK(torch->rank == 11);
  CHECK(torch->ranks == 16);
  CHECK(torch->local_rank == 3);
  CHECK(torch->address == "node0");
  CHECK(torch->port == 29500);
  auto const mpi = launched_with({{"OMPI_COMM_WORLD_SIZE", "2"},
                                  {"OMPI_COMM_WORLD_RANK", "1"},
                                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
  REQUIRE(mpi);
  CHECK(mpi->launcher_name == "mpirun");
  CHECK(mpi->rank == 1);
  CHECK(mpi->address.empty());
  auto const slurm = launched_with({{"SLURM_STEP_ID", "0"},
                                    {"SLURM_NTASKS", "8"},
                                    {"SLURM_PROCID", "5"},
                                    {"SLURM_LOCALID", "1"}});
  REQUIRE(slurm);
  CHECK(slurm->launcher_name == "srun");
  CHECK(slurm->rank == 5);
  CHECK(slurm->local_rank == 1);
}

TEST_CASE("nccl launched_rank: a missing variable and one that is not a number are named") {
  CHECK(refusal({{"WORLD_SIZE", "4"}, {"RANK", "4"}, {"LOCAL_RANK", "0"}}) ==
        "RANK=4 (torchrun): expected a number from 0 to 3");
  CHECK(refusal({{"WORLD_SIZE", "4"}, {"RANK", "1"}})
            .starts_with("torchrun started this process with WORLD_SIZE but without LOCAL_RANK"));
  CHECK(refusal({{"WORLD_SIZE", "many"}, {"RANK", "1"}}).starts_with("WORLD_SIZE=many"));
  CHECK(refusal({{"WORLD_SIZE", "2"},
                 {"RANK", "1"},
                 {"LOCAL_RANK", "0"},
                 {"MASTER_ADDR", "a"},
                 {"MASTER_PORT", "99999"}}) ==
        "MASTER_PORT=99999 (torchrun): expected a number from 1 to 65535");
}

}  // namespace nccl_launched_test
