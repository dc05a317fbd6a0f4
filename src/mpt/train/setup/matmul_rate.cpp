#include <mpt/train/setup/matmul_rate.hpp>

#include <bit>

#include <fmt/format.h>

namespace mpt {

double max_over_ranks(double value, parallel::any_communicator& comm,
                      parallel::host::stream& exchanges) {
  comm.all_reduce(exchanges, std::span<double>(&value, 1), parallel::reduction::max).wait();
  return value;
}

std::vector<double> values_by_rank(double value, parallel::any_communicator& comm,
                                   parallel::host::stream& exchanges) {
  std::vector<double> values(static_cast<std::size_t>(comm.size()));
  comm.all_gather(exchanges, std::span<double>(values), std::span<double const>(&value, 1)).wait();
  return values;
}

std::string watched_peak::observe(double rate) {
  if (!(rate > flops_)) return {};
  bool const is_first = !std::exchange(exceeded_, true);
  if (!remeasure_rate_)
    return is_first
               ? fmt::format(
                     "note: MFU is above 100 %: the run does {} FLOP/s, but its devices "
                     "together {} ({}); {}",
                     console::count(rate), console::count(flops_), source_,
                     source_ == configured ? "correct callbacks.speed_monitor.gpu_flops_available"
                                           : "its formula counts attention that is masked, which "
                                             "throughput/device/mfu_causal does not")
               : std::string();
  flops_ = rate;
  source_ = "what the run itself has done";
  return is_first ? fmt::format(
                        "note: the run does {} FLOP/s, more than the {} of matrix products "
                        "measured at its start, when the machine did something else too; MFU is "
                        "of the most that was seen, and measured again",
                        console::count(rate), console::count(first_))
                  : std::string();
}

void watched_peak::update(std::int64_t batch, double trained, double rate,
                          parallel::any_communicator& comm, parallel::host::stream& exchanges) {
  if (remeasure_rate_ && std::has_single_bit(static_cast<std::uint64_t>(batch)))
    remeasure(trained, rate, comm, exchanges);
}

void watched_peak::finish(double trained, double rate, parallel::any_communicator& comm,
                          parallel::host::stream& exchanges) {
  if (remeasure_rate_) remeasure(trained, rate, comm, exchanges);
  static_cast<void>(observe(rate));
}

void watched_peak::remeasure(double trained, double rate, parallel::any_communicator& comm,
                             parallel::host::stream& exchanges) {
  constexpr double doubtful = 0.9;  // share of a peak that training does not reach
  double const least_trained = (exceeded_ || rate > doubtful * flops_ ? 10 : 50) * cost_;
  bool const wants_remeasurement = comm.rank() == 0 && trained - last_ > least_trained;
  if (max_over_ranks(wants_remeasurement ? 1 : 0, comm, exchanges) == 0) return;
  auto const begin = std::chrono::steady_clock::now();
  double const rate_now = remeasure_rate_();
  cost_ = std::max(seconds,
                   std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  last_ = trained;
  if (rate_now <= flops_) return;
  flops_ = rate_now;
  source_ = measured;
}

}  // namespace mpt
