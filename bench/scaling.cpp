// scaling: measures how training scales. 1, 2, 4, … ranks train the same MPT, with a constant
// number of sequences per rank (weak scaling) and with a constant total (strong scaling), and are
// compared with one rank. Ranks are threads, or processes under mpirun, where ranks are numbered
// machine by machine.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <mpt/config/model/sizes.hpp>
#include <mpt/model/model.hpp>
#include <mpt/model/sequences.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/core/machine_name.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/session.hpp>

#include <cli/app.hpp>
#include <devices/cores.hpp>
#include <launch/launch.hpp>
#include "launched_device.hpp"
#include "parts/clock.hpp"
#include "statistics.hpp"

namespace {

using namespace parallel;
using parallel::index;

struct arguments {
  std::string size = "125m", precision = "bf16", device = "auto";
  std::optional<int> ranks;
  int zero_stage = 3, batch = 1, steps = 5;
  index length = 512;
};

/// One rank's share of a training on all ranks of `comm`.
template <class T, class Device>
class training {
 public:
  training(arguments const& args, any_communicator& comm, Device& device, index sequences)
      : net_(mpt::hub_form(mpt::named_size(args.size))),
        session_(net_, device, comm, decoupled_adamw({.learning_rate = 6e-4}),
                 {.level = static_cast<zero::level>(args.zero_stage),
                  .clip = {.kind = train::clipping_kind::norm, .threshold = 1.0}}),
        ids_(static_cast<std::size_t>(sequences * args.length)),
        first_(sequences * comm.rank()) {
    philox const random(static_cast<std::uint64_t>(comm.rank()), stream_id("scaling"));
    for (std::size_t i = 0; i < ids_.size(); ++i)
      ids_[i] = static_cast<std::int32_t>(random.bits(i) %
                                          static_cast<std::uint32_t>(net_.config().vocab_size));
    index const tokens = std::ssize(ids_);
    batch_ = {{ids_.data(), {tokens}}, {ids_.data(), {tokens}}, sequences, args.length, tokens};
    session_.initialise(1);
  }

  /// Runs one step and returns its seconds.
  double step() {
    double const begin = bench::read_clock(bench::clock_kind::wall);
    static_cast<void>(
        session_.step({{&batch_, 1}, {&first_, 1}, {.seed = 1, .step = step_count_++}}));
    return bench::read_clock(bench::clock_kind::wall) - begin;
  }

 private:
  mpt::model<T> net_;
  train::session<mpt::model<T>, Device, any_communicator, decoupled_adamw> session_;
  std::vector<std::int32_t> ids_;
  index first_;
  mpt::microbatch batch_;
  std::uint32_t step_count_ = 0;
};

/// Tokens per second that the first `ranks` ranks train, each on `sequences` sequences, by the
/// median step of the slowest rank. The other ranks wait.
template <class T, class Device>
double token_rate(arguments const& args, any_communicator& comm, Device& device, int ranks,
                  index sequences) {
  host::stream s;
  double seconds = 0;
  auto group = comm.split(comm.rank() < ranks ? 0 : 1);
  if (comm.rank() < ranks) {
    training<T, Device> run(args, group, device, sequences);
    for (int warm_up_step = 0; warm_up_step < 2; ++warm_up_step) static_cast<void>(run.step());
    std::vector<double> seconds_by_step;
    for (int i = 0; i < args.steps; ++i) seconds_by_step.push_back(run.step());
    seconds = bench::median(std::move(seconds_by_step));
  }
  comm.all_reduce(s, std::span<double>(&seconds, 1), reduction::max).wait();
  return static_cast<double>(ranks * sequences * args.length) / seconds;
}

template <class T, class Device>
void run_on_device(arguments const& args, any_communicator& comm, Device& device,
                   std::string const& name) {
  host::stream s;
  auto const machines = gather_texts(comm, s, parallel::machine_name());
  std::vector<int> counts;
  for (int n = 1; n < comm.size(); n *= 2) counts.push_back(n);
  counts.push_back(comm.size());
  int const rank_count = comm.size();
  bool const is_printing = comm.rank() == 0;
  auto const print_line = [&](std::string const& line) {
    if (!is_printing) return;
    fmt::print("{}\n", line);
    std::fflush(stdout);
  };
  print_line(
      fmt::format("MPT-{} in {}, ZeRO {}, {} tokens a sequence; {} each; the median of {} steps\n",
                  args.size, args.precision, args.zero_stage, args.length, name, args.steps));
  print_line(fmt::format("{:>6} {:>9}  {:^30}  {:^30}", "", "",
                         fmt::format("weak: {} sequences a rank", args.batch),
                         fmt::format("strong: {} sequences in all", args.batch * rank_count)));
  print_line(fmt::format("{:>6} {:>9}  {:>18} {:>11}  {:>18} {:>11}", "ranks", "machines",
                         "tokens/s", "efficiency", "tokens/s", "efficiency"));
  double weak_single = 0, strong_single = 0, min_efficiency = 1;
  for (int const ranks : counts) {
    std::map<std::string, int> used_machines;
    for (int r = 0; r < ranks; ++r) ++used_machines[machines[static_cast<std::size_t>(r)]];
    double const weak = token_rate<T>(args, comm, device, ranks, args.batch);
    bool const is_divisible = args.batch * rank_count % ranks == 0;
    double const strong =
        is_divisible ? token_rate<T>(args, comm, device, ranks, args.batch * rank_count / ranks)
                     : 0;
    if (ranks == 1) {
      weak_single = weak;
      strong_single = strong;
    }
    min_efficiency = std::min(min_efficiency, weak / weak_single / ranks);
    print_line(fmt::format("{:>6} {:>9}  {:>18.0f} {:>9.1f} %  {}", ranks, used_machines.size(),
                           weak, 100 * weak / weak_single / ranks,
                           is_divisible ? fmt::format("{:>18.0f} {:>9.1f} %", strong,
                                                      100 * strong / strong_single / ranks)
                                        : fmt::format("{:>18} {:>11}", "-", "-")));
  }
  print_line(fmt::format("\nthe lowest efficiency of weak scaling is {:.1f} %, {} 80 %",
                         100 * min_efficiency, min_efficiency >= 0.8 ? "at least" : "below"));
}

void run(arguments const& args) {
  launch_with_device(args.ranks, args.device, args.precision,
                     [&]<class T>(any_communicator& comm, auto& device, std::string const& name) {
                       run_on_device<T>(args, comm, device, name);
                     });
}

}  // namespace

int main(int argc, char** argv) {
  arguments args;
  CLI::App app{"Measures weak and strong scaling of training, from one rank to all ranks"};
  app.add_option("--size", args.size, "125m, 350m, ...");
  app.add_option("--precision", args.precision)->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--zero_stage", args.zero_stage)->check(apps::whole_number(0, 3));
  app.add_option("--batch", args.batch, "sequences per rank (weak scaling)")
      ->check(apps::whole_number(1, 1 << 16));
  app.add_option("--length", args.length, "tokens of a sequence")
      ->check(apps::whole_number(1, 1 << 20));
  app.add_option("--steps", args.steps)->check(apps::whole_number(1, 1000));
  app.add_option("--ranks", args.ranks,
                 "number of threads; under mpirun the number of its processes")
      ->check(apps::whole_number(1, 1024));
  app.add_option("--device", args.device)->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  return apps::run(app, argc, argv, apps::is_primary(), [&] { run(args); });
}
