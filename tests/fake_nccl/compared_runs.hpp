// Comparison of runs of the product's trainer on fake GPUs with those on the host.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "mpt/train/tiny_run.hpp"

namespace fake_nccl {

namespace fs = std::filesystem;
using namespace tiny_run;

inline std::vector<float> floats_of(std::vector<std::byte> const& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

/// The greatest relative difference of two checkpoints: for each tensor, the greatest difference of
/// an element divided by the greatest absolute value.
inline double difference(fs::path const& a, fs::path const& b) {
  auto const one = content_of(a), other = content_of(b);
  REQUIRE(one.size() == other.size());
  double worst = 0;
  for (auto const& [name, bytes] : one) {
    auto const values_a = floats_of(bytes), values_b = floats_of(other.at(name));
    REQUIRE(values_a.size() == values_b.size());
    double greatest = 0, distance = 0;
    for (std::size_t i = 0; i < values_a.size(); ++i) {
      greatest = std::max(greatest, std::abs(static_cast<double>(values_b[i])));
      auto const d = std::abs(static_cast<double>(values_a[i]) - static_cast<double>(values_b[i]));
      distance = d <= distance ? distance : d;  // keeps NaN
    }
    double const share = distance == 0 ? 0 : distance / greatest;
    worst = share <= worst ? worst : share;
  }
  return worst;
}

/// The losses and evaluations in a metrics file, by "batch name".
inline std::map<std::string, double> losses(fs::path const& file) {
  std::map<std::string, double> out;
  for (auto const& record : records(file))
    for (auto const& [name, value] : record.items())
      if (name.starts_with("loss/") || name.starts_with("metrics/"))
        out[std::to_string(record.at("time/batch").get<int>()) + " " + name] = value;
  return out;
}

/// The configuration of a tiny run without biases: the gradients of keys' biases are rounding
/// errors alone, which AdamW would turn into full steps.
inline train_config configuration(run_files const& files, double batches) {
  auto config = divisible_config(files, batches);
  config.model.n_layers = 2;
  config.model.no_bias = true;
  config.data.global_train_batch_size = 4;
  return config;
}

}  // namespace fake_nccl
