// Runs of the product's trainer on fake GPUs, compared with the host's.
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

/// The greatest difference of the checkpoints' tensors, as a share of each one's greatest number.
inline double difference(fs::path const& a, fs::path const& b) {
  auto const one = content_of(a), other = content_of(b);
  REQUIRE(one.size() == other.size());
  double worst = 0;
  for (auto const& [name, bytes] : one) {
    auto const mine = floats_of(bytes), theirs = floats_of(other.at(name));
    REQUIRE(mine.size() == theirs.size());
    double greatest = 0, apart = 0;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      greatest = std::max(greatest, std::abs(static_cast<double>(theirs[i])));
      auto const d = std::abs(static_cast<double>(mine[i]) - static_cast<double>(theirs[i]));
      apart = d <= apart ? apart : d;  // NaN is taken over
    }
    double const share = apart == 0 ? 0 : apart / greatest;
    worst = share <= worst ? worst : share;
  }
  return worst;
}

/// Loss and evaluation of each batch in a metrics file.
inline std::map<std::string, double> losses(fs::path const& file) {
  std::map<std::string, double> out;
  for (auto const& record : records(file))
    for (auto const& [name, value] : record.items())
      if (name.starts_with("loss/") || name.starts_with("metrics/"))
        out[std::to_string(record.at("time/batch").get<int>()) + " " + name] = value;
  return out;
}

/// Without biases: those of keys have no gradient but what rounding makes, of which AdamW makes
/// whole steps.
inline train_config configuration(place const& here, double batches) {
  auto config = divisible(here, batches);
  config.model.n_layers = 2;
  config.model.no_bias = true;
  config.global_train_batch_size = 4;
  return config;
}

}  // namespace fake_nccl
