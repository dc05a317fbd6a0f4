// Makes the fake machine of a GPU program that is linked with the fake runtimes, as environment
// variables describe it. FAKE_GPUS="devices=2 seed=3 memory=100000000 fault=no_host_waits" sets the
// machine's properties, each of which is optional. If CUDA_VISIBLE_DEVICES is set, the machine has
// one device. FAKE_NCCL names the folder through which ranks that are processes meet: those that
// mpirun started, or that have an NCCL_HOSTID.
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

fake_cuda::fault parse_fault(std::string const& name) {
  using enum fake_cuda::fault;
  static std::map<std::string, fake_cuda::fault> const known{{"no_stream_waits", no_stream_waits},
                                                             {"no_host_waits", no_host_waits},
                                                             {"early_records", early_records},
                                                             {"no_access", no_access},
                                                             {"crossed_streams", crossed_streams}};
  auto const found = known.find(name);
  if (found == known.end()) throw std::invalid_argument("fault=" + name + " is not a known fault");
  return found->second;
}

fake_cuda::machine_options parse_machine(std::string const& text) {
  fake_cuda::machine_options out;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    auto const end = word.find('=');
    if (end == std::string::npos) throw std::invalid_argument(word + ": expected NAME=VALUE");
    auto const name = word.substr(0, end), value = word.substr(end + 1);
    if (name == "devices")
      out.devices = std::stoi(value);
    else if (name == "seed")
      out.seed = std::stoull(value);
    else if (name == "memory")
      out.memory = std::stoull(value);
    else if (name == "fault")
      out.fault = parse_fault(value);
    else
      throw std::invalid_argument(word + ": expected devices=, seed=, memory= or fault=");
  }
  return out;
}

std::string read_variable(char const* name) {
  char const* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

/// Makes the machine before main.
[[maybe_unused]] bool const is_made = [] {
  auto const gpus = read_variable("FAKE_GPUS");
  try {
    auto machine = parse_machine(gpus);
    if (!read_variable("CUDA_VISIBLE_DEVICES").empty()) machine.devices = 1;
    fake_cuda::restart(machine);
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "FAKE_GPUS=\"%s\": %s\n", gpus.c_str(), problem.what());
    std::_Exit(2);
  }
  bool const is_process_rank =
      !read_variable("OMPI_COMM_WORLD_SIZE").empty() || !read_variable("NCCL_HOSTID").empty();
  fake_nccl::restart({.process_folder = is_process_rank ? read_variable("FAKE_NCCL") : ""});
  return true;
}();

}  // namespace
