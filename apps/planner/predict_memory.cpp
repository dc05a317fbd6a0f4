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

/// The bytes of a pipeline rank's activations that no pass leaves to another.
[[nodiscard]] double temporaries_of(mpt::train_config const& config, mpt::run_plan const& plan,
                                    int rank) {
  auto const& parallelism = config.execution.parallelism;
  mpt::model<parallel::bf16> const net(config.model, mpt::planned_groups(parallelism),
                                       plan.recompute);
  auto stages = stages_of(config.model, parallelism, rank);
  auto const shape = mpt::sequences::shape_of(
      plan.split.microbatch, config.data.train_loader.max_seq_len / parallelism.context);
  auto const microbatches = stages.least_microbatches(static_cast<int>(plan.split.accumulation));
  auto const bytes =
      parallel::train::bytes_of_step(net, stages.plan_of(microbatches, parallel::pass::training),
                                     stages, {&shape, 1}, parallel::pass::training);
  return static_cast<double>(bytes.scratch + bytes.second_scratch);
}

/// The memory of the pipeline ranks of a row's run, whose logits are counted by the program.
[[nodiscard]] std::vector<mpt::rank_memory> ranks_of(
    mpt::published_row const& row, parallel::cluster::program_memory const& program) {
  auto config = mpt::read_train_config(mpt::make_document(row.yaml(), row.location()));
  if (program.logit_bytes > 0) config.model.logits_bytes = 1;  // the fewest at once
  auto const plan = mpt::plan_run<parallel::bf16>(config, row.whole("gpus"));
  auto ranks = memory_of_ranks(config, plan);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    ranks[rank].temporaries = temporaries_of(config, plan, static_cast<int>(rank));
  return ranks;
}

[[nodiscard]] parallel::cluster::program_memory memory_of(mpt::published_row const& row) {
  return mpt::memory_of_program(mpt::program_of(row.text("source")), row.text("notes"));
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
    auto const planned = ranks_of(row, memory).back();
    mpt::rank_memory const rank{.value_bytes = planned.value_bytes,
                                .gradients = planned.gradients,
                                .states = planned.states};
    double const distance = std::abs(bytes_of(rank, memory) - held);
    if (!chosen.is_null() && distance >= nearest) continue;
    nearest = distance;
    chosen = fields;
  }
  fields = std::move(chosen);
}

[[nodiscard]] nlohmann::ordered_json json_of(mpt::rank_memory const& rank) {
  return {{"value_bytes", rank.value_bytes}, {"gradients", rank.gradients},
          {"states", rank.states},           {"activations", rank.activations},
          {"gathered", rank.gathered},       {"temporaries", rank.temporaries},
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
                  .has_costs = true,
                  .checksum = stated.checksum()},
          .notes = row.text("notes"),
          .rank = rank};
}

}  // namespace apps
