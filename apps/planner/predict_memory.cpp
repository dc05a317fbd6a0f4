#include <planner/predict_memory.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <mpt/config/read_train.hpp>
#include <mpt/plan/known_programs.hpp>
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

[[nodiscard]] nlohmann::ordered_json json_of(mpt::rank_memory const& rank) {
  return {{"value_bytes", rank.value_bytes}, {"gradients", rank.gradients},
          {"states", rank.states},           {"activations", rank.activations},
          {"logits", rank.logits},           {"tensor_parts", rank.tensor_parts},
          {"scores", rank.scores},           {"residuals", rank.residuals}};
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
  return {{"program", row.source},    {"gpu", row.gpu},
          {"location", row.location}, {"is_held_out", row.checksum % 2 == 1},
          {"measured", row.measured}, {"predicted", row.predicted},
          {"ranks", {json_of(rank)}}};
}

predicted_fit predict_fit(mpt::published_row const& row) {
  auto const outcome = row.text("outcome");
  parallel::require(outcome == "fits" || outcome == "OOM", "its outcome is ", outcome,
                    ", neither fits nor OOM");
  auto const machines = mpt::read_cluster(row.cluster());
  auto const program = mpt::program_of(row.text("source"));
  auto const memory = mpt::memory_of_program(program, row.text("gpu"), row.text("notes"));
  auto ranks = ranks_of(row, memory);
  predicted_fit out{.row = {.source = program,
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

predicted_bytes predict_bytes(mpt::published_row const& row) {
  auto const measured = row.number("mem_max_allocated_bytes").value_or(0);
  parallel::require(measured > 0, "it has no mem_max_allocated_bytes");
  auto const program = mpt::program_of(row.text("source"));
  auto const memory = mpt::memory_of_program(program, row.text("gpu"), row.text("notes"));
  auto const rank = ranks_of(row, memory).back();
  return {.row = {.source = program,
                  .gpu = fmt::format("{}, width {}", row.text("gpu"), row.text("hidden")),
                  .location = row.location(),
                  .measured = measured,
                  .predicted = bytes_of(rank, memory),
                  .checksum = row.checksum()},
          .rank = rank};
}

}  // namespace apps
