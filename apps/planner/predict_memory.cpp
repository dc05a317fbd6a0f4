#include <planner/predict_memory.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <mpt/config/read_train.hpp>
#include <mpt/plan/known_programs.hpp>
#include <mpt/plan/megatron_row.hpp>
#include <mpt/plan/read_cluster.hpp>
#include <mpt/train/setup/plan_run.hpp>
#include <mpt/yaml/document.hpp>

namespace apps {
namespace {

/// The memory of the pipeline ranks of a row's run, whose logits are counted by the program.
[[nodiscard]] std::vector<mpt::rank_memory> ranks_of(
    mpt::published_row const& row, parallel::cluster::program_memory const& program) {
  auto config = mpt::read_train_config(mpt::make_document(row.yaml(), row.location()));
  if (program.logit_bytes > 0) config.model.logits_bytes = 1;  // the fewest at once
  return memory_of_ranks(config, mpt::plan_run<parallel::bf16>(config, row.whole("gpus")));
}

[[nodiscard]] parallel::cluster::program_memory memory_of(mpt::published_row const& row) {
  return mpt::memory_of_program(mpt::program_of(row.text("source")), row.text("gpu"),
                                row.text("notes"));
}

/// Sets the GPUs and the batch of a row that does not state them.
void choose_gpus(nlohmann::json& fields, mpt::published_row const& stated) {
  auto const held = stated.number("mem_allocated_bytes").value_or(0);
  parallel::require(held > 0, "it has neither global_batch nor mem_allocated_bytes");
  int const model_ranks = stated.whole("tp", 1) * stated.whole("pp", 1) * stated.whole("cp", 1);
  double nearest = 0;
  nlohmann::json chosen;
  for (int data_ranks = 1; data_ranks <= 128; data_ranks *= 2) {
    fields["gpus"] = std::to_string(data_ranks * model_ranks);
    fields["global_batch"] =
        std::to_string(data_ranks * stated.whole("micro_batch") * stated.whole("pp", 1));
    auto const row = mpt::megatron_row(fields, stated.location());
    auto const memory = memory_of(row);
    auto rank = ranks_of(row, memory).back();
    rank.activations = rank.logits = rank.scores = rank.residuals = 0;
    double const distance = std::abs(bytes_of(rank, memory) - held);
    if (!chosen.is_null() && distance >= nearest) continue;
    nearest = distance;
    chosen = fields;
  }
  fields = std::move(chosen);
}

[[nodiscard]] nlohmann::ordered_json json_of(mpt::rank_memory const& rank) {
  return {{"value_bytes", rank.value_bytes},
          {"gradients", rank.gradients},
          {"states", rank.states},
          {"activations", rank.activations},
          {"gathered", rank.gathered},
          {"logits", rank.logits},
          {"tensor_parts", rank.tensor_parts},
          {"scores", rank.scores},
          {"residuals", rank.residuals}};
}

}  // namespace

nlohmann::ordered_json predicted_fit::to_json() const {
  auto by_rank = nlohmann::ordered_json::array();
  for (auto const& rank : ranks) by_rank.push_back(json_of(rank));
  return {{"program", row.source},
          {"gpu", row.gpu},
          {"location", row.location},
          {"is_held_out", row.checksum % 2 == 1},
          {"fits", row.fits},
          {"available", available},
          {"predicted_share", row.predicted_share},
          {"ranks", std::move(by_rank)}};
}

nlohmann::ordered_json predicted_bytes::to_json() const {
  return {{"program", row.source},
          {"gpu", row.gpu},
          {"location", row.location},
          {"is_held_out", row.checksum % 2 == 1},
          {"notes", notes},
          {"measured", row.measured},
          {"predicted", row.predicted},
          {"ranks", {json_of(rank)}}};
}

predicted_fit predict_fit(mpt::published_row const& row) {
  auto const outcome = row.text("outcome");
  parallel::require(outcome == "fits" || outcome == "OOM", "its outcome is ", outcome,
                    ", neither fits nor OOM");
  auto const machines = mpt::read_cluster(row.cluster());
  auto const memory = memory_of(row);
  auto ranks = ranks_of(row, memory);
  predicted_fit out{.row = {.source = mpt::program_of(row.text("source")),
                            .gpu = row.text("gpu"),
                            .location = row.location(),
                            .fits = outcome == "fits",
                            .checksum = row.checksum()},
                    .ranks = std::move(ranks),
                    .available = static_cast<double>(machines.available_memory())};
  for (auto const& rank : out.ranks)
    out.row.predicted_share =
        std::max(out.row.predicted_share, bytes_of(rank, memory) / out.available);
  return out;
}

predicted_bytes predict_bytes(nlohmann::json fields, std::string const& location) {
  mpt::published_row const stated(fields, location);
  auto const measured = stated.number("mem_max_allocated_bytes").value_or(0);
  parallel::require(measured > 0, "it has no mem_max_allocated_bytes");
  if (stated.text("global_batch").empty()) choose_gpus(fields, stated);
  auto const row = mpt::megatron_row(std::move(fields), location);
  auto const memory = memory_of(row);
  auto const rank = ranks_of(row, memory).back();
  return {.row = {.source = mpt::program_of(row.text("source")),
                  .gpu = fmt::format("{}, width {}", row.text("gpu"), row.text("hidden")),
                  .location = location,
                  .measured = measured,
                  .predicted = bytes_of(rank, memory),
                  .checksum = stated.checksum()},
          .notes = row.text("notes"),
          .rank = rank};
}

}  // namespace apps
