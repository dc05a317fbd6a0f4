// The ranks of processes that torchrun, srun and other launchers start.
#include <doctest/doctest.h>

#include <map>
#include <string>

#include <launch/cluster.hpp>
#include <launch/launcher.hpp>

namespace cluster_test {

using variables = std::map<std::string, std::string>;

inline std::optional<apps::process> process_of(variables const& environment) {
  return apps::process_of_a_cluster([&](char const* name) {
    auto const found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST_CASE("tasks_on_node: the number of a node's tasks is read from SLURM's list") {
  CHECK(apps::tasks_on_node("8", 0) == 8);
  CHECK(apps::tasks_on_node("4(x2),3", 0) == 4);
  CHECK(apps::tasks_on_node("4(x2),3", 1) == 4);
  CHECK(apps::tasks_on_node("4(x2),3", 2) == 3);
  CHECK(apps::tasks_on_node("4(x2),3", 3) == 1);
  CHECK(apps::tasks_on_node("", 0) == 1);
  CHECK(apps::tasks_on_node("x", 0) == 1);
}

TEST_CASE(
    "process_of_a_cluster: ranks of torchrun and srun are recognised, batch scripts and single "
    "processes are not") {
  auto const torch = process_of(
      {{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}});
  REQUIRE(torch.has_value());
  CHECK(torch->rank == 5);
  CHECK(torch->ranks == 8);
  CHECK(torch->local_rank == 1);
  CHECK(torch->local_ranks == 4);
  variables const task{{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "6"},
                       {"SLURM_PROCID", "5"},  {"SLURM_LOCALID", "1"},
                       {"SLURM_NODEID", "1"},  {"SLURM_STEP_TASKS_PER_NODE", "4,2"},
                       {"SLURM_NTASKS", "100"}};
  auto const slurm = process_of(task);
  REQUIRE(slurm.has_value());
  CHECK(slurm->rank == 5);
  CHECK(slurm->ranks == 6);
  CHECK(slurm->local_rank == 1);
  CHECK(slurm->local_ranks == 2);
  CHECK(slurm->launcher == "srun");
  CHECK_FALSE(process_of({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}).has_value());
  CHECK_FALSE(process_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).has_value());
  CHECK_FALSE(process_of({{"WORLD_SIZE", "4"}}).has_value());
  for (auto const& [name, value] :
       variables{{"SLURM_PROCID", "6"}, {"SLURM_LOCALID", "2"}, {"SLURM_PROCID", "-1"}}) {
    auto wrong = task;
    wrong[name] = value;
    CHECK_THROWS_WITH_AS(static_cast<void>(process_of(wrong)),
                         doctest::Contains("the environment of srun says rank"), parallel::error);
  }
}

TEST_CASE("process_of_a_cluster: ranks without a local rank are refused with advice") {
  for (char const* const single_name : {"", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) {
    variables environment{{"RANK", "0"}, {"WORLD_SIZE", "2"}};
    if (*single_name != 0) environment[single_name] = "1";
    CHECK_THROWS_WITH_AS(
        static_cast<void>(process_of(environment)),
        doctest::Contains("has RANK and WORLD_SIZE of several processes, but not LOCAL_RANK and "
                          "LOCAL_WORLD_SIZE; start the processes by launch or torchrun"),
        parallel::error);
  }
  CHECK_THROWS_WITH_AS(
      static_cast<void>(process_of(
          {{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}})),
      doctest::Contains("says rank 2 of 2"), parallel::error);
}

TEST_CASE(
    "launcher_named_by: an unsupported launcher is recognised by its variables, a batch script is "
    "not") {
  auto const named_by = [](variables const& environment) {
    auto const found = apps::launcher_named_by([&](char const* name) {
      auto const variable = environment.find(name);
      return variable == environment.end() ? nullptr : variable->second.c_str();
    });
    return found ? parallel::concat(found->variable, " ", found->value, " ", found->processes)
                 : std::string();
  };
  CHECK(named_by({{"WORLD_SIZE", "2"}}) == "WORLD_SIZE 2 2");
  CHECK(named_by({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}}) == "PMI_SIZE 2 2");
  CHECK(named_by({{"MV2_COMM_WORLD_SIZE", "4"}, {"MV2_COMM_WORLD_RANK", "3"}}) ==
        "MV2_COMM_WORLD_SIZE 4 4");
  CHECK(named_by({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}}) ==
        "OMPI_COMM_WORLD_SIZE 2 2");
  CHECK(named_by({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}}) ==
        "SLURM_STEP_NUM_TASKS 2 2");
  CHECK(named_by({{"PMIX_RANK", "1"}}) == "PMIX_RANK 1 2");
  CHECK(named_by({{"PMIX_RANK", "0"}}).empty());
  CHECK(named_by({{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}}).empty());
  CHECK(named_by({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}}).empty());
}

}  // namespace cluster_test
