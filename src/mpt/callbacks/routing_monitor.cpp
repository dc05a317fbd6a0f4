#include <mpt/callbacks/routing_monitor.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include <parallel/ops/experts/record_routing.hpp>

namespace mpt {
namespace {

using parallel::concat;
using parallel::ops::routing_number;

/// The record of one layer's router.
struct layer_record {
  std::span<double const> tokens;  ///< by expert
  std::span<double const> numbers;

  [[nodiscard]] double number(routing_number kind) const {
    return numbers[static_cast<std::size_t>(kind)];
  }
};

[[nodiscard]] std::vector<layer_record> layers_of(std::span<double const> record,
                                                  std::size_t experts) {
  std::vector<layer_record> out;
  auto const size = static_cast<std::size_t>(
      parallel::ops::routing_record_size(static_cast<parallel::index>(experts)));
  for (std::size_t begin = 0; begin < record.size(); begin += size) {
    auto const layer = record.subspan(begin, size);
    out.push_back({layer.first(experts), layer.subspan(experts)});
  }
  return out;
}

[[nodiscard]] double sum(std::span<double const> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

/// The loads of a layer's experts, as multiples of their mean.
struct loads {
  double largest = 0, smallest = 0, fullest_rank = 0;
  std::int64_t idle = 0;

  loads(layer_record const& layer, std::size_t ranks) {
    double const mean = sum(layer.tokens) / static_cast<double>(layer.tokens.size());
    if (mean == 0) return;
    largest = std::ranges::max(layer.tokens) / mean;
    smallest = std::ranges::min(layer.tokens) / mean;
    idle = std::ranges::count(layer.tokens, 0.0);
    auto const part = layer.tokens.size() / ranks;
    for (std::size_t r = 0; r < ranks; ++r)
      fullest_rank = std::max(fullest_rank, sum(layer.tokens.subspan(r * part, part)) /
                                                (mean * static_cast<double>(part)));
  }
};

}  // namespace

void routing_monitor::batch_end(run_control& run, batch_result const& r) const {
  if (r.record == nullptr || r.record->empty()) return;
  auto const layers = layers_of(*r.record, static_cast<std::size_t>(experts_));
  auto const count = static_cast<double>(layers.size());
  double balance = 0, z = 0, entropy = 0, dropped = 0, choices = 0;
  double largest = 0, smallest = static_cast<double>(experts_), fullest_rank = 0;
  std::int64_t idle = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    auto const& layer = layers[i];
    loads const of_layer(layer, static_cast<std::size_t>(ranks_));
    double const rows = std::max(1.0, layer.number(routing_number::rows));
    double const layer_entropy = layer.number(routing_number::entropy) / rows;
    run.log(concat("experts/layer", i, "/max_load"), of_layer.largest);
    run.log(concat("experts/layer", i, "/min_load"), of_layer.smallest);
    run.log(concat("experts/layer", i, "/entropy"), layer_entropy);
    balance += layer.number(routing_number::balance_loss) / r.loss_tokens;
    z += layer.number(routing_number::z_loss) / r.loss_tokens;
    entropy += layer_entropy / count;
    dropped += layer.number(routing_number::dropped);
    choices += rows * static_cast<double>(top_k_);
    largest = std::max(largest, of_layer.largest);
    smallest = std::min(smallest, of_layer.smallest);
    fullest_rank = std::max(fullest_rank, of_layer.fullest_rank);
    idle += of_layer.idle;
  }
  run.log("experts/max_load", largest);
  run.log("experts/min_load", smallest);
  run.log("experts/entropy", entropy);
  run.log("experts/fullest_rank", fullest_rank);
  run.log("experts/idle", static_cast<double>(idle));
  run.log("experts/dropped", dropped / choices);
  run.log("loss/train/loss", r.loss);
  run.log("loss/train/lbl", balance);
  run.log("loss/train/zloss", z);
  run.log("loss/train/total", r.loss + balance + z);
  if (!tokens_per_expert_ || r.batch % tokens_per_expert_->interval != 0) return;
  std::vector<double> tokens_of_layers;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::vector<double> tokens(layers[i].tokens.begin(), layers[i].tokens.end());
    if (tokens_per_expert_->normalize)
      for (double& number : tokens)
        number /= std::max(1.0, sum(layers[i].tokens)) / static_cast<double>(top_k_);
    if (tokens_per_expert_->every_layer) log_tokens(run, concat("mb_moe/layer", i), tokens);
    tokens_of_layers.insert(tokens_of_layers.end(), tokens.begin(), tokens.end());
  }
  log_tokens(run, "mb_moe/all_layers", tokens_of_layers);
}

void routing_monitor::log_tokens(run_control& run, std::string const& prefix,
                                 std::span<double const> tokens) const {
  std::vector<double> sorted(tokens.begin(), tokens.end());
  std::ranges::sort(sorted);
  double const mean = sum(tokens) / static_cast<double>(tokens.size());
  double squares = 0;
  for (double const number : tokens) squares += (number - mean) * (number - mean);
  run.log(prefix + "_min_tpe", sorted.front());
  run.log(prefix + "_max_tpe", sorted.back());
  run.log(prefix + "_median_tpe", sorted[(sorted.size() - 1) / 2]);  // the lower, as torch.median
  run.log(prefix + "_std_tpe", std::sqrt(squares / static_cast<double>(tokens.size() - 1)));
}

}  // namespace mpt
