#include <mpt/train/report/metrics.hpp>

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include <parallel/core/failures.hpp>

namespace mpt {

void speed_window::mark(instant current) {
  marks_.push_back(current);
  if (marks_.size() > capacity_) marks_.pop_front();
}

void speed_window::skip(clock::duration pause) {
  for (auto& entry : marks_) entry.time += pause;
}

speed_window::clock::duration speed_window::skip_since(clock::time_point begin) {
  auto const pause = clock::now() - begin;
  skip(pause);
  return pause;
}

double speed_window::padded_tokens_per_second() const { return speed_of(&instant::padded_tokens); }

double speed_window::data_wait_share() const {
  return seconds() > 0 ? (marks_.back().waited_seconds - marks_.front().waited_seconds) / seconds()
                       : 0.0;
}

double speed_window::speed_of(std::int64_t instant::*count) const {
  return seconds() > 0
             ? static_cast<double>(marks_.back().*count - marks_.front().*count) / seconds()
             : 0.0;
}

double speed_window::seconds() const {
  return std::chrono::duration<double>(marks_.back().time - marks_.front().time).count();
}

double utilisation::mfu(double tokens_per_second) const {
  return peak_flops > 0 ? tokens_per_second * flops_per_token / peak_flops : 0.0;
}

double utilisation::hfu(double tokens_per_second) const {
  return mfu(tokens_per_second) +
         (peak_flops > 0 ? tokens_per_second * recomputed_flops_per_token / peak_flops : 0.0);
}

double utilisation::mfu_causal(double tokens_per_second) const {
  return peak_flops > 0 ? tokens_per_second * causal_flops_per_token / peak_flops : 0.0;
}

double peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) * 1024;
  return 0;
}

metrics_file::metrics_file(std::filesystem::path const& path) {
  if (path.empty()) return;
  std::error_code problem;  // opening tells what is wrong
  if (std::filesystem::is_regular_file(path, problem)) {
    constexpr std::string_view begin = R"({"time/batch":)";  // of every record
    std::string found(begin.size(), '\0');
    std::ifstream file(path);
    file.read(found.data(), std::ssize(found));
    found.resize(static_cast<std::size_t>(file.gcount()));
    parallel::require(begin.starts_with(found), "metrics_file ", path.string(),
                      ": holds something else than metrics; choose another file");
  }
  file_ = open_for_appending(path, "metrics_file ", "; choose another file");
  file_.end_last_line();
}

void metrics_file::finish() const {
  if (file_.lost() > 0)
    parallel::fail<parallel::storage_error>("metrics_file ", file_.path().string(), ": ",
                                            file_.lost(),
                                            " lines were lost: ", file_.loss_reason());
}

}  // namespace mpt
