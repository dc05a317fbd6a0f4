// The table of NVIDIA's nccl-tests for any communicator: time and bandwidth of collectives by size,
// and the number of wrong values. Ranks are threads, or processes under mpirun.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <parallel/comm/network/timed_collectives.hpp>

#include <cli/app.hpp>
#include <launch/launch.hpp>
#include "launched_device.hpp"

namespace {

using namespace parallel;

constexpr std::array kinds{operation_kind::all_reduce, operation_kind::reduce_scatter,
                           operation_kind::all_gather, operation_kind::all_to_all,
                           operation_kind::broadcast,  operation_kind::send};

struct arguments {
  std::string collective = "all";
  std::optional<int> ranks;
  std::uint64_t min_bytes = 8;
  std::uint64_t max_bytes = 0;  // 0: the limit of memory
  std::string type = "fp32";
  int root = 0;
  double seconds = 0.1;
  std::string device = "auto";
};

/// The largest size, a power of two of at most 8 GiB, with which two buffers on each of this
/// machine's ranks take at most half of the free memory.
template <class Device>
std::uint64_t max_size(Device& device, any_communicator& comm) {
  auto const sharing = Device::host_reaches_memory ? apps::ranks_on_this_machine(comm.size()) : 1;
  auto const share = device.available_bytes() / 4 / static_cast<std::size_t>(sharing);
  std::uint64_t size = 1 << 20;
  while (size < (std::uint64_t{8} << 30) && 2 * size <= share) size *= 2;
  auto const memory = device.template allocate_shared<double>(1);
  memory.span()[0] = -static_cast<double>(size);
  host::stream s;
  comm.all_reduce(s, memory.span(), reduction::max).wait();
  return static_cast<std::uint64_t>(-memory.span()[0]);
}

/// The columns of one form (out of place or in place); adds its bandwidth to `bandwidths`.
std::string columns(std::optional<collective_timing> const& timing, std::size_t bytes,
                    double factor, std::vector<double>& bandwidths) {
  if (!timing) return fmt::format("{:>10} {:>7} {:>7} {:>6}", "-", "-", "-", "-");
  double const rate = static_cast<double>(bytes) / timing->seconds / 1e9;
  bandwidths.push_back(rate * factor);
  return fmt::format("{:>10.2f} {:>7.2f} {:>7.2f} {:>6}", 1e6 * timing->seconds, rate,
                     rate * factor, timing->wrong);
}

/// Prints the table on rank 0; returns the number of wrong values.
template <class Timed>
std::uint64_t print_table(Timed& timed, any_communicator& comm, operation_kind kind,
                          arguments const& args, std::uint64_t max_bytes, std::size_t element) {
  bool const is_printing = comm.rank() == 0;
  auto const name = kind == operation_kind::send ? std::string_view("send_recv") : to_string(kind);
  auto const say = [&](std::string const& line) {
    if (!is_printing) return;
    fmt::print("{}\n", line);
    std::fflush(stdout);
  };
  say(fmt::format("# {}, {} ranks\n#", name, comm.size()));
  say(fmt::format("#{:>12} {:>12} {:>6} {:>6} {:>5}  {:^33}  {:^33}", "", "", "", "", "",
                  "out of place", "in place"));
  auto const heading = fmt::format("{:>10} {:>7} {:>7} {:>6}", "time", "algbw", "busbw", "#wrong");
  say(fmt::format("#{:>12} {:>12} {:>6} {:>6} {:>5}  {}  {}", "size", "count", "type", "redop",
                  "root", heading, heading));
  auto const units = fmt::format("{:>10} {:>7} {:>7} {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
  say(fmt::format("#{:>12} {:>12} {:>6} {:>6} {:>5}  {}  {}", "(B)", "(elements)", "", "", "",
                  units, units));
  std::uint64_t wrong = 0;
  std::vector<double> bandwidths;
  for (std::uint64_t size = args.min_bytes; size <= max_bytes; size *= 2) {
    collective_call call{.kind = kind, .bytes = size, .root = args.root};
    auto const out_of_place = timed.time(call, args.seconds);
    call.in_place = true;
    auto const in_place_timing = timed.time(call, args.seconds);
    if (!out_of_place && !in_place_timing) continue;  // less than one element per rank
    auto const count = out_of_place ? out_of_place->count : in_place_timing->count;
    bool const is_sharded = bus_factor(kind, 2) == 0.5;
    auto const bytes = count * element * (is_sharded ? static_cast<std::size_t>(comm.size()) : 1);
    for (auto const& timing : {out_of_place, in_place_timing}) wrong += timing ? timing->wrong : 0;
    auto const factor = bus_factor(kind, comm.size());
    auto const first_columns = columns(out_of_place, bytes, factor, bandwidths);
    say(fmt::format(" {:>12} {:>12} {:>6} {:>6} {:>5}  {}  {}", bytes, count, args.type,
                    combines(kind) ? "sum" : "none",
                    kind == operation_kind::broadcast ? args.root : -1, first_columns,
                    columns(in_place_timing, bytes, factor, bandwidths)));
  }
  double sum = 0;
  for (double const one : bandwidths) sum += one;
  say(fmt::format("# wrong values: {}{}", wrong, wrong == 0 ? ", OK" : ", FAILED"));
  if (!bandwidths.empty())
    say(fmt::format("# average bus bandwidth: {:.2f} GB/s\n#",
                    sum / static_cast<double>(bandwidths.size())));
  return wrong;
}

template <class T, class Device>
void run_on(arguments const& args, any_communicator& comm, Device& device,
            std::string const& name) {
  auto const memory_limit = max_size(device, comm);
  apps::on_every_rank([&] {
    require(args.max_bytes <= memory_limit, "--max ", args.max_bytes, ": memory allows ",
            memory_limit, " bytes (two buffers on each rank, in half of the free memory)");
    require(args.root >= 0 && args.root < comm.size(), "--root ", args.root, ": ranks are 0 ... ",
            comm.size() - 1);
    require(comm.size() > 1, "one rank exchanges nothing; --ranks 2, or start with mpirun");
  });
  auto const max_bytes = args.max_bytes == 0 ? memory_limit : args.max_bytes;
  if (comm.rank() == 0)
    fmt::print("# {}: {}\n#\n", apps::processes_started() ? "processes" : "threads", name);
  timed_collectives<T, Device, any_communicator> timed(device, comm, max_bytes);
  std::uint64_t wrong = 0;
  for (auto const kind : kinds)
    if (args.collective == "all" || args.collective == to_string(kind))
      wrong += print_table(timed, comm, kind, args, max_bytes, sizeof(T));
  apps::on_every_rank(
      [&] { require(wrong == 0, wrong, " values were wrong: the tables show in which calls"); });
}

void run(arguments const& args) {
  launch_with_device(args.ranks, args.device, args.type,
                     [&]<class T>(any_communicator& comm, auto& device, std::string const& name) {
                       run_on<T>(args, comm, device, name);
                     });
}

}  // namespace

int main(int argc, char** argv) {
  arguments args;
  CLI::App app{"Times of collectives by size, as the table of NVIDIA's nccl-tests"};
  std::vector<std::string> names{"all"};
  for (auto const kind : kinds) names.emplace_back(to_string(kind));
  app.add_option("--collective", args.collective)->check(CLI::IsMember(names));
  app.add_option("--ranks", args.ranks, "threads; under mpirun its processes")
      ->check(apps::whole_number(1, 1024));
  app.add_option("--min", args.min_bytes, "bytes of the first line")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--max", args.max_bytes, "bytes of the last; default: what memory allows")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--type", args.type)->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--root", args.root, "of broadcasts");
  app.add_option("--seconds", args.seconds, "of each number")->check(CLI::PositiveNumber);
  app.add_option("--device", args.device)->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  return apps::run(app, argc, argv, apps::is_primary(), [&] {
    require(args.min_bytes >= 1, "--min: a size is at least 1 byte");
    run(args);
  });
}
