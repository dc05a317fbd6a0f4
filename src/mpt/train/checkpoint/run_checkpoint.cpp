#include <mpt/train/checkpoint/run_checkpoint.hpp>

#include <algorithm>
#include <string_view>
#include <system_error>

#include <mpt/config/model/hf.hpp>
#include <mpt/config/model/hf_attention.hpp>
#include <mpt/config/model/read_lora.hpp>
#include <mpt/train/checkpoint/resumed_settings.hpp>

namespace mpt {
namespace {

/// The patterns and layers of parameters that are not trained.
[[nodiscard]] nlohmann::json frozen_patterns(optimizer_config const& optimizer) {
  auto patterns = nlohmann::json::array();
  for (auto const& pattern : optimizer.disable_grad) patterns.push_back(pattern.text);
  for (auto const& name : optimizer.frozen_layers) patterns.push_back(name);
  return patterns;
}

/// Prefix of the settings of the model that a run may change when it loads the weights alone, for
/// example to train on longer sequences.
constexpr std::string_view changeable_rope_prefix = "attn_config.rope_";

/// The sequences of a microbatch, whose gradients are a leaf of the tree that the canonical
/// reduction order adds up; 0 when gradients are added in the order of ranks.
[[nodiscard]] std::int64_t canonical_leaf(data_config const& data,
                                          execution_config const& execution) {
  return is_canonical(execution) ? split_batch(data, execution, 1).microbatch : 0;
}

/// The checkpoints in save_folder that a run with save_overwrite replaces: all of them or, if the
/// run began from one of them (`begun_from`; "": from none), those after it.
[[nodiscard]] std::vector<checkpoint::checkpoint_id> checkpoints_to_replace(
    checkpoint_config const& config, std::filesystem::path const& begun_from) {
  std::vector<checkpoint::checkpoint_id> out;
  if (!config.save_overwrite) return out;
  std::optional<checkpoint::checkpoint_id> last;
  std::error_code error;
  auto const source_folder =
      std::filesystem::canonical(begun_from, error);  // follows the link `latest`
  if (!error &&
      std::filesystem::equivalent(source_folder.parent_path(), config.save_folder, error)) {
    last = checkpoint::checkpoint_id::parse(source_folder.filename().native());
    if (!last) return out;  // the folder's name does not say which checkpoints are later
  }
  for (auto const& entry : checkpoint::list_folders(config.save_folder))
    if (!last || entry.id > *last) out.push_back(entry.id);
  return out;
}

}  // namespace

bool is_checkpoint(std::filesystem::path const& folder) {
  return parallel::files::exists(folder / checkpoint::manifest_name);
}

std::optional<found_checkpoint> checkpoint_to_load(checkpoint_config const& checkpoint) {
  auto const& c = checkpoint;
  if (!c.save_folder.empty()) {
    auto const newest = checkpoint::latest(c.save_folder);
    if (newest.folder && c.autoresume)
      return found_checkpoint{.folder = *newest.folder,
                              .weights_only = false,
                              .note = newest.note,
                              .on_damage = checkpoint::if_damaged::set_aside};
    require(!c.autoresume || newest.note.empty() || c.save_overwrite, c.save_folder, ": ",
            newest.note,
            "; rescue what is there and remove it to begin anew, or replace it with "
            "save_overwrite=true");
    bool const has_local_checkpoints = parallel::files::exists(
        std::filesystem::path(c.save_folder) / checkpoint::local_pointer_name);
    require(c.autoresume || c.save_overwrite || (!newest.folder && !has_local_checkpoints),
            c.save_folder,
            ": holds checkpoints of an earlier run; continue it with autoresume=true, replace them "
            "with save_overwrite=true, or choose another save_folder");
  }
  if (c.load_path.empty() && !checkpoint.pretrained.empty())
    return found_checkpoint{.folder = checkpoint.pretrained, .weights_only = true, .note = {}};
  require(!c.load_path.empty() || checkpoint.adapter.empty(), checkpoint.adapter,
          ": is an adapter, but the run has no weights of the model it adapts; give load_path or "
          "model.pretrained_model_name_or_path");
  if (c.load_path.empty()) return std::nullopt;
  if (hf::is_model(c.load_path))
    return found_checkpoint{.folder = c.load_path, .weights_only = true, .note = {}};
  if (is_checkpoint(c.load_path))
    return found_checkpoint{.folder = c.load_path, .weights_only = c.load_weights_only, .note = {}};
  bool const is_composer_file = std::filesystem::path(c.load_path).extension() == ".pt";
  require(!is_composer_file || parallel::files::exists(c.load_path), "load_path ", c.load_path,
          ": there is no such file; a run of ours has folders like ep0-ba100: give one of them, or "
          "the folder that holds them, whose latest checkpoint is taken");
  auto const newest = checkpoint::latest(c.load_path);
  require(newest.folder.has_value(), "load_path ", c.load_path,
          ": there is no checkpoint here; give a folder like ep0-ba100, one that holds such "
          "folders, or a Hugging Face folder");
  return found_checkpoint{.folder = *newest.folder,
                          .weights_only = c.load_weights_only,
                          .note = newest.note,
                          .on_damage = checkpoint::if_damaged::go_back};
}

nlohmann::json state_of_resumed_run(checkpoint_config const& checkpoint) {
  try {  // what is wrong with a checkpoint is said when it is loaded
    auto const found = checkpoint_to_load(checkpoint);
    if (!found || found->weights_only || !is_checkpoint(found->folder)) return {};
    return checkpoint::checkpoint_reader(found->folder).state();
  } catch (parallel::error const& problem) {
    if (parallel::is_system_error(problem)) throw;  // the state is not known, rather than absent
    return {};
  }
}

std::optional<std::chrono::local_seconds> date_of_resumed_run(checkpoint_config const& checkpoint) {
  auto const state = state_of_resumed_run(checkpoint);
  auto const saved = nlohmann::json::json_pointer("/order/data_local_time");
  if (!state.contains(saved) || !state.at(saved).is_number_integer()) return std::nullopt;
  return std::chrono::local_seconds(std::chrono::seconds(state.at(saved).get<std::int64_t>()));
}

void add_notes(std::vector<std::string>& notes, found_checkpoint const& found,
               model_config const& model, optimizer_config const& optimizer,
               execution_config const& execution, std::int64_t batch, bool is_stopped) {
  if (is_stopped)
    notes.emplace_back("early_stopper has ended this run, so it trains no further batch");
  if (!found.note.empty()) notes.push_back("note: " + found.note);
  auto const folder = found.folder.string();
  notes.push_back(found.weights_only ? parallel::concat("weights of ", folder)
                                     : parallel::concat("resumed ", folder, " at batch ", batch));
  if (found.weights_only || !found.reader) return;
  auto const& state = found.reader->state();
  if (auto const settings = state.find("settings"); settings != state.end())
    if (auto const changes =
            describe_changed_settings(*settings, changeable_settings(model, optimizer, execution)))
      notes.push_back(*changes);
}

checkpoint::run_state saved_state(train_config const& config, run_state const& state,
                                  hf::adapted_model const& adapter_base) {
  checkpoint::run_state out{
      .batches = state.batches,
      .epoch = state.epoch,
      .best = state.is_best,
      .program_state = {
          {"batch_in_epoch", state.batch_in_epoch},
          {"best_loss", state.best_loss ? nlohmann::json(*state.best_loss) : nullptr},
          {"tokens", state.tokens},
          {"callbacks", state.callbacks},
          {"skipped", state.skipped},
          {"spikes", state.spikes},
          {"order", detail::data_order_of(config.model, config.data, config.optimizer, config.run,
                                          state.data)},
          {"settings", changeable_settings(config.model, config.optimizer, config.execution)},
          {"canonical_leaf", canonical_leaf(config.data, config.execution)},
          {"weights_only", config.checkpoint.save_weights_only},
          {"model",
           to_hf_json(config.model,
                      config.execution.precision == precision_kind::fp32 ? "float32" : "bfloat16")},
          {"tokenizer", config.data.tokenizer.name},
          {"run_name", config.run.name}}};
  if (config.model.lora) {
    out.program_state["peft_config"] =
        to_peft_json(*config.model.lora, adapter_base.base, config.model);
    out.program_state["adapted_model"] = adapter_base.to_json();
  }
  return out;
}

void require_same_adapted_model(nlohmann::json const& state, hf::adapted_model const& current,
                                std::filesystem::path const& folder) {
  require_same_weights(hf::adapted_model_of(state.value("adapted_model", nlohmann::json()), {}),
                       current.checksums, current.folder, folder.string());
}

checkpoint::save_options save_options_of(checkpoint_config const& config,
                                         parallel::action_hook on_action,
                                         checkpoint::claim_id owner,
                                         std::filesystem::path const& begun_from) {
  return {.saved = config.save_weights_only ? checkpoint::content::weights
                                            : checkpoint::content::everything,
          .keep = std::max<index>(0, config.save_num_checkpoints_to_keep),
          .replaces = checkpoints_to_replace(config, begun_from),
          .on_action = std::move(on_action),
          .keep_every = config.keep_every,
          .owner = owner};
}

}  // namespace mpt

namespace mpt::detail {

nlohmann::json data_order_of(model_config const& model, data_config const& data,
                             optimizer_config const& optimizer, run_config const& run,
                             trained_set const& set) {
  nlohmann::json out = {{"samples_in_set", set.samples},
                        {"global_train_batch_size", data.global_train_batch_size},
                        {"max_seq_len", data.train_loader.max_seq_len},
                        {"shuffle", data.train_loader.shuffle},
                        {"shuffle_seed", data.train_loader.shuffle_seed},
                        {"shuffle_block_size", data.train_loader.shuffle_block_size.value_or(0)},
                        {"shuffle_reach", static_cast<int>(data.train_loader.reach)},
                        {"streams", data.train_loader.streams.size()},
                        {"train_subset_num_batches", data.train_subset_num_batches},
                        {"seed", run.seed},
                        {"optimizer", optimizer.name},
                        {"frozen", frozen_patterns(optimizer)}};
  if (model.lora) out["peft_config"] = to_peft_json(*model.lora, {}, model);
  if (!set.checksum.empty()) out["data_checksum"] = set.checksum;
  if (data.train_loader.finetuning) out["data_local_time"] = set.date.time_since_epoch().count();
  if (!set.contents.empty()) out["data_contents"] = set.contents;
  if (!set.hashes.empty())
    out["data_hashes"] = {{"written_as", set.written_as}, {"checksum", set.hashes}};
  auto& shares = out["shares_of_streams"] = nullptr;
  if (data.train_loader.streams.size() > 1)
    for (auto const& stream : data.train_loader.streams)
      shares.push_back({{"name", stream.name},
                        {"split", stream.split},
                        {"proportion", json_or_null(stream.weight.proportion)},
                        {"repeat", json_or_null(stream.weight.repeat)},
                        {"choose", json_or_null(stream.weight.choose)}});
  // The tokens that divide packed texts; without attn_uses_sequence_id they have no effect.
  bool const divides_texts = model.attn.attn_uses_sequence_id;
  out["eos_token_id"] = divides_texts ? json_or_null(data.train_loader.eos_token_id) : nullptr;
  out["bos_token_id"] = divides_texts ? json_or_null(data.train_loader.bos_token_id) : nullptr;
  if (auto const& examples = data.train_loader.finetuning) {
    out["target_prompts"] = examples->target_prompts;
    out["target_responses"] = examples->target_responses;
    auto const& packing = examples->packing;
    out["packing_ratio"] = !packing         ? nlohmann::json(1)
                           : packing->ratio ? nlohmann::json(*packing->ratio)
                                            : nlohmann::json("auto");
    if (packing && packing->leftover_bins)
      out["max_leftover_bins_to_keep"] = *packing->leftover_bins;
  }
  return out;
}

void require_same_order(nlohmann::json const& saved, nlohmann::json const& current,
                        std::filesystem::path const& folder) {
  auto const is_compared = [&](std::string const& key) {
    if (key.starts_with("data_")) return false;  // compared below
    bool const is_newer_key =
        key == "shares_of_streams" || key == "eos_token_id" || key == "bos_token_id";
    return !is_newer_key || saved.contains(key);  // earlier versions did not save it
  };
  if (auto const difference = first_difference(saved, current, is_compared))
    parallel::fail(
        folder.string(), ": was trained with ", difference->name, " = ", difference->first,
        ", this run has ", difference->second,
        "; make them equal to continue, or take only the weights with load_weights_only=true");
  for (char const* const key : {"data_checksum", "data_contents", "data_hashes"}) {
    if (!saved.contains(key) || !current.contains(key)) continue;
    auto const& saved_value = saved.at(key);
    auto const& current_value = current.at(key);
    // Hashes of files can be compared only if the files were written in the same way.
    bool const comparable =
        !saved_value.is_object() || !current_value.is_object() ||
        saved_value.value("written_as", nlohmann::json()) == current_value.at("written_as");
    require(!comparable || saved_value == current_value, folder.string(),
            ": was trained with other data of train_loader (examples, their order, or the sizes or "
            "contents of shards); give the same data to continue, or take only the weights with "
            "load_weights_only=true");
  }
}

void require_same_model(nlohmann::json const& state, model_config const& model,
                        std::filesystem::path const& folder, bool weights_only) {
  if (!state.contains("model")) return;
  auto const origin = folder.string() + ": its manifest";
  require_same_model(from_hf_json(state.at("model"), origin).model, origin, model,
                     " to go on from its weights", weights_only ? changeable_rope_prefix : "");
}

void require_same_reduction_order(nlohmann::json const& state, data_config const& data,
                                  execution_config const& execution,
                                  std::filesystem::path const& folder) {
  std::int64_t saved = 0;
  if (state.contains("canonical_leaf")) {
    auto const& leaf = state.at("canonical_leaf");
    require(leaf.is_number_integer(), folder.string(), ": the canonical_leaf of its state is ",
            leaf.dump(), ", expected a number; use another checkpoint");
    saved = leaf.get<std::int64_t>();
  }
  auto const current = canonical_leaf(data, execution);
  auto const describe_order = [](std::int64_t leaf) {
    return leaf == 0 ? std::string("reduction_order by_rank")
                     : concat("reduction_order canonical and microbatches of ", leaf);
  };
  require(saved == 0 || saved == current, folder.string(), ": was trained with ",
          describe_order(saved), ", this run has ", describe_order(current),
          "; set reduction_order=canonical and device_train_microbatch_size=", saved,
          " to continue, or take only the weights with load_weights_only=true");
}

}  // namespace mpt::detail
