// The reported values of a step: loss, speed, utilisation and memory, on the console and as JSON
// lines.
//
// MFU is defined as in LLM Foundry: (6N + 12·L·d·S) FLOPs per token times tokens and padding per
// second, over the peak rate; in a layer with a window its keys stand for S. HFU also counts
// recomputation; without recomputation they are equal. `mfu_causal` counts only the attention
// scores that a causal mask keeps. On a CPU the peak is the matrix-product rate measured at the
// start of the run, and again during the run.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/console/format.hpp>
#include <mpt/log/appended_file.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// Speed and the share of time spent waiting for data, over the last batches: the current values,
/// which also show a stall late in a long run.
class speed_window {
 public:
  using clock = std::chrono::steady_clock;

  /// A moment of a run with the sums up to then, which may include the run before it was resumed.
  struct instant {
    clock::time_point time;
    std::int64_t tokens = 0;         ///< without padding
    double waited_seconds = 0;       ///< for data
    std::int64_t padded_tokens = 0;  ///< tokens and padding
    std::int64_t trained = 0;        ///< tokens with a label
    std::int64_t batches = 0;
  };

  /// A window of at most `batches` batches, which begins at `begin`.
  speed_window(std::size_t batches, instant begin) : capacity_(batches + 1), marks_{begin} {}

  /// Adds the moment after a batch.
  void mark(instant current);
  /// Excludes time that was not training (evaluation, saving) from the window.
  void skip(clock::duration pause);
  /// Excludes the time from `begin` until now and returns it.
  clock::duration skip_since(clock::time_point begin);
  [[nodiscard]] double padded_tokens_per_second() const;
  [[nodiscard]] double batches_per_second() const { return speed_of(&instant::batches); }
  [[nodiscard]] double tokens_per_second() const { return speed_of(&instant::tokens); }
  [[nodiscard]] double trained_tokens_per_second() const { return speed_of(&instant::trained); }
  [[nodiscard]] double data_wait_share() const;

 private:
  [[nodiscard]] double speed_of(std::int64_t instant::*count) const;
  [[nodiscard]] double seconds() const;

  std::size_t capacity_;
  std::deque<instant> marks_;
};

/// Utilisation of all devices together.
struct utilisation {
  double peak_flops = 0;  ///< of all devices, FLOP/s
  double flops_per_token = 0;
  double causal_flops_per_token = 0;
  double recomputed_flops_per_token = 0;  ///< executed in addition

  [[nodiscard]] double mfu(double tokens_per_second) const;
  [[nodiscard]] double hfu(double tokens_per_second) const;
  [[nodiscard]] double mfu_causal(double tokens_per_second) const;
};

/// The largest resident set of this process so far, in bytes; 0 where the system does not report
/// it.
[[nodiscard]] double peak_memory_bytes();

/// Appends JSON objects, one per line; each line is written whole.
class metrics_file {
 public:
  metrics_file() = default;

  /// Opens `path` for appending; the folder is made. An empty path writes nothing. Throws for a
  /// file that holds something else.
  explicit metrics_file(std::filesystem::path const& path);

  /// Adds a record. Records that cannot be written are lost; `finish` reports them.
  void write(nlohmann::ordered_json const& record) { file_.add(record.dump() + "\n"); }

  /// Throws a storage_error when records were lost.
  void finish() const;

 private:
  appended_file file_;
};

/// The peak of the device memory of this rank in bytes, operations' scratch included; 0 where the
/// device does not count it.
template <class Device>
[[nodiscard]] double peak_device_bytes(Device const& device) {
  double out = 0;
  if constexpr (requires { device.peak_bytes(); }) out += static_cast<double>(device.peak_bytes());
  if constexpr (requires { device.peak_scratch_bytes(); })
    out += static_cast<double>(device.peak_scratch_bytes());
  return out;
}

/// The readings of a device by name, with the device memory of this rank in GB under Composer's
/// names.
template <class Device>
[[nodiscard]] std::vector<std::pair<std::string, double>> readings_of(Device const& device) {
  std::vector<std::pair<std::string, double>> out;
  if constexpr (requires { device.readings(); }) out = device.readings();
  if constexpr (requires { device.bytes(); })
    out.emplace_back("memory/current_allocated_mem", static_cast<double>(device.bytes()) / 1e9);
  if (double const peak = peak_device_bytes(device); peak > 0)
    out.emplace_back("memory/peak_allocated_mem", peak / 1e9);
  return out;
}

}  // namespace mpt
