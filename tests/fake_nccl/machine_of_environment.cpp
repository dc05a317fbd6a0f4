// The machine of programs for GPUs that are linked with the fake runtimes, as the environment sets
// it. FAKE_GPUS="devices=2 seed=3 memory=100000000 fault=no_host_waits", each part optional,
// describes the machine; CUDA_VISIBLE_DEVICES leaves one device of it. FAKE_NCCL names the folder
// in which ranks that are processes meet: those of mpirun, and those that NCCL regards as machines.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

#include "fake_cuda/runtime.hpp"
#include "fake_nccl/fake_nccl.hpp"

namespace {

fake_cuda::fault fault_of(std::string const& name) {
  using enum fake_cuda::fault;
  static std::map<std::string, fake_cuda::fault> const known{{"no_stream_waits", no_stream_waits},
                                                             {"no_host_waits", no_host_waits},
                                                             {"early_records", early_records},
                                                             {"no_access", no_access},
                                                             {"crossed_streams", crossed_streams}};
  return known.at(name);
}

fake_cuda::machine_options machine_of(std::string const& text) {
  fake_cuda::machine_options out;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    auto const end = word.find('=');
    if (end == std::string::npos) throw std::invalid_argument(word);
    auto const name = word.substr(0, end), value = word.substr(end + 1);
    if (name == "devices")
      out.devices = std::stoi(value);
    else if (name == "seed")
      out.seed = std::stoull(value);
    else if (name == "memory")
      out.memory = std::stoull(value);
    else if (name == "fault")
      out.fault = fault_of(value);
    else
      throw std::invalid_argument(word);
  }
  return out;
}

std::string variable(char const* name) {
  char const* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

/// Makes the machine before main.
[[maybe_unused]] bool const is_made = [] {
  auto const gpus = variable("FAKE_GPUS");
  try {
    auto machine = machine_of(gpus);
    if (!variable("CUDA_VISIBLE_DEVICES").empty()) machine.devices = 1;
    fake_cuda::restart(machine);
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "FAKE_GPUS=\"%s\": %s\n", gpus.c_str(), problem.what());
    std::_Exit(2);
  }
  bool const is_one_of_many =
      !variable("OMPI_COMM_WORLD_SIZE").empty() || !variable("NCCL_HOSTID").empty();
  fake_nccl::restart({.process_folder = is_one_of_many ? variable("FAKE_NCCL") : ""});
  return true;
}();

}  // namespace
