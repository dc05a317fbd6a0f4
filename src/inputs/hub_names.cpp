#include <inputs/hub_names.hpp>

#include <optional>
#include <utility>

#include <fmt/format.h>
#include <mpt/config/model/read_lora.hpp>
#include <mpt/config/read_train.hpp>
#include <mpt/finetune/find_files.hpp>
#include <mpt/finetune/split_files.hpp>
#include <mpt/hub/fetch_repository.hpp>
#include <mpt/hub/listing.hpp>
#include <mpt/yaml/document.hpp>
#include <mpt/yaml/scalar.hpp>
#include <parallel/core/file.hpp>

#include <inputs/hub_dataset.hpp>

namespace apps {
namespace {

namespace fs = std::filesystem;
using mpt::config_key;
using mpt::config_node;

/// The result of get() for a name of the hub. Its error says that there is no such folder either.
template <class Get>
[[nodiscard]] auto with_name_in_errors(std::string const& name, Get const& get) {
  try {
    return get();
  } catch (parallel::storage_error const&) {
    throw;
  } catch (parallel::error const& problem) {
    parallel::fail("there is no folder '", name, "' here; as a name of the hub: ", problem.what());
  }
}

[[nodiscard]] mpt::hub::snapshot fetch_named(mpt::hub::wanted_repository const& wanted) {
  return with_name_in_errors(wanted.repository.name, [&] { return fetch_aloud(wanted); });
}

[[nodiscard]] mpt::hub::wanted_repository tokenizer_named(std::string const& name) {
  mpt::hub::wanted_repository out;
  out.repository.name = name;
  out.choice = mpt::hub::tokenizer_files;
  out.checks_contents = true;  // its files are small
  out.missing_file = mpt::hub::missing_tokenizer_file;
  return out;
}

/// The scalar at a path of keys, or null.
[[nodiscard]] config_node* scalar_of(config_node& root, std::initializer_list<char const*> keys) {
  config_node* node = &root;
  for (char const* const key : keys)
    if (node != nullptr) node = node->is_map() ? node->find(key) : nullptr;
  return node != nullptr && node->is_scalar() ? node : nullptr;
}

[[nodiscard]] std::string setting_text(config_node& root, std::initializer_list<char const*> keys) {
  auto const* const node = scalar_of(root, keys);
  return node == nullptr ? std::string() : node->text;
}

/// Whether a configuration's name is of the hub. The hub no longer has mosaicml's repositories, so
/// their names count only if the cache has a copy; the readers say what else to do.
[[nodiscard]] bool is_offered(mpt::hub::repository const& named) {
  if (!mpt::hub::means_repository(named.name)) return false;
  return !named.name.starts_with("mosaicml/") ||
         parallel::files::exists(mpt::hub::read_settings().cache / named.folder());
}

/// Whether the value is a name of the hub that no mirror of the document stands for.
[[nodiscard]] bool is_hub_name(config_node& root, config_node const* value) {
  if (value == nullptr || !is_offered({mpt::hub::repository_kind::model, value->text}))
    return false;
  auto const* const mirrors = root.find("mirrors");
  return mirrors == nullptr || !mirrors->is_map() || mirrors->find(value->text) == nullptr;
}

/// Whether a run encodes texts itself: examples for finetuning, tasks or prompts.
[[nodiscard]] bool needs_tokenizer(config_node& root) {
  if (root.find("icl_tasks") != nullptr || root.find("icl_tasks_str") != nullptr) return true;
  auto* const callbacks = root.find("callbacks");
  if (callbacks != nullptr && callbacks->is_map() &&
      callbacks->find("generate_callback") != nullptr)
    return true;
  return setting_text(root, {"train_loader", "name"}) == "finetuning" &&
         scalar_of(root, {"train_loader", "dataset", "hf_name"}) != nullptr;
}

/// Replaces the names of the hub in one model of an evaluation's document, and gets the model that
/// an adapter in its place names.
void replace_evaluated_names(config_node& root, config_node& model) {
  auto const load_path = setting_text(model, {"load_path"});  // weights instead of the folder's
  auto* const weights =
      load_path.empty() ? scalar_of(model, {"model", "pretrained_model_name_or_path"}) : nullptr;
  auto* const adapter = scalar_of(model, {"model", "pretrained_lora_id_or_path"});
  std::optional<config_node> shown;  // the first name, with both as they were written
  for (auto* const name : {weights, adapter}) {
    if (!is_hub_name(root, name)) continue;
    if (!shown) {
      shown = *name;
      shown->text = mpt::eval::model_name(weights != nullptr ? weights->text : load_path,
                                          adapter != nullptr ? adapter->text : std::string());
    }
    name->text = local_model(name->text).native();
  }
  if (adapter == nullptr) fetch_adapted_model(weights != nullptr ? weights->text : load_path);
  if (shown && model.find("model_name") == nullptr) {
    config_key const key{.name = "model_name", .location = shown->location};
    model.set(key, *std::move(shown));
  }
  if (auto* const tokenizer = scalar_of(model, {"tokenizer", "name"}); is_hub_name(root, tokenizer))
    tokenizer->text = local_tokenizer(tokenizer->text);
}

/// Downloads the files of one loader's split and names their folder in its place.
void fetch_set(mpt::finetuning_config& set) {
  if (!is_offered({mpt::hub::repository_kind::dataset, set.name})) return;
  hub_dataset found = with_name_in_errors(set.name, [&] { return hub_dataset(set.name); });
  mpt::finetune::file_names names{.name = found.folder().native(),
                                  .subset = set.subset,
                                  .split = set.split,
                                  .data_dir = set.data_dir,
                                  .data_files = set.data_files};
  if (auto const unnamed = names.data_files.extract(""))
    names.data_files[names.split] = unnamed.mapped();
  if (found.is_listed()) {
    found.get(found.files(names));
  } else {
    auto const missing = mpt::finetune::missing_part(mpt::finetune::find_files(names));
    parallel::require(missing.empty(), set.name,
                      ": the cache has only a part of it, as another program left it: ", missing,
                      " is missing; get the rest once with access to the hub");
  }
  set.name = found.folder().native();
}

}  // namespace

CLI::Validator existing_path_or_name() {
  return {[](std::string& text) -> std::string {
            if (parallel::files::exists(text) || mpt::hub::means_repository(text)) return {};
            return fmt::format("'{}' is neither here nor a name of the hub (ORG/NAME)",
                               mpt::printable(text));
          },
          "PATH or ORG/NAME"};
}

fs::path local_model(fs::path const& path) {
  if (!mpt::hub::means_repository(path.native())) return path;
  return fetch_named(mpt::hub::wanted_model(path.native(), mpt::hub::weights::included)).folder;
}

void fetch_adapted_model(fs::path const& folder) {
  if (!mpt::is_adapter_folder(folder)) return;
  auto const base = mpt::adapted_name(mpt::read_adapter_json(folder),
                                      (folder / mpt::adapter_config_name).native());
  if (mpt::hub::means_repository(base.name))
    static_cast<void>(
        fetch_named(mpt::hub::wanted_model(base.name, mpt::hub::weights::included, base.revision)));
}

std::string local_tokenizer(std::string const& name) {
  if (!mpt::hub::means_repository(name)) return name;
  auto const cached = cached_repository(tokenizer_named(name), mpt::hub::read_settings());
  if (cached && parallel::files::exists(cached->folder / "tokenizer.json"))
    return cached->folder.native();
  return fetch_named(tokenizer_named(name)).folder.native();
}

mpt::train_config training_file::load(
    std::span<std::string const> overrides,
    std::function<void(mpt::config_node const&)> const& on_document) {
  return mpt::load_train_config(file_, overrides, [&](config_node& document) {
    if (on_document) on_document(document);
    replace_names(document);
  });
}

void training_file::replace_names(config_node& root) {
  auto const is_set = [&](std::initializer_list<char const*> keys, bool fallback) {
    return mpt::parse_bool(setting_text(root, keys)).value_or(fallback);
  };
  bool const is_plan = is_set({"dry_run"}, false) || is_set({"print_plan"}, false);
  bool const has_weights = !is_plan && is_set({"model", "pretrained"}, true);
  for (char const* const key : {"pretrained_model_name_or_path", "pretrained_lora_id_or_path"})
    if (auto* const name = scalar_of(root, {"model", key}); is_hub_name(root, name))
      name->text = folder_of(has_weights ? "weights" : "model", name->text, [&] {
        auto const choice = has_weights ? mpt::hub::weights::included : mpt::hub::weights::excluded;
        return fetch_named(mpt::hub::wanted_model(name->text, choice)).folder.native();
      });
  auto* const name = scalar_of(root, {"tokenizer", "name"});
  if (!is_hub_name(root, name)) return;
  if (needs_tokenizer(root))
    name->text = folder_of("tokenizer", name->text, [&] { return local_tokenizer(name->text); });
  else if (auto const cached =
               cached_repository(tokenizer_named(name->text), mpt::hub::read_settings()))
    name->text = cached->folder.native();
}

std::string training_file::folder_of(std::string const& purpose, std::string const& name,
                                     std::function<std::string()> const& get) {
  std::pair const asked(purpose, name);
  auto const found = folders_.find(asked);
  if (found != folders_.end()) return found->second;
  return folders_.emplace(asked, get()).first->second;
}

void fetch_named_sets(mpt::data_config& data) {
  if (data.train_loader.finetuning) fetch_set(*data.train_loader.finetuning);
  for (auto& loader : data.eval_loaders)
    if (loader.finetuning) fetch_set(*loader.finetuning);
}

mpt::eval::eval_config load_eval_config(fs::path const& file,
                                        std::span<std::string const> overrides) {
  return mpt::eval::load_eval_config(file, overrides, [](config_node& root) {
    replace_evaluated_names(root, root);
    if (auto* const models = root.find("models"); models != nullptr && models->is_list())
      for (auto& model : models->items)
        if (model.is_map()) replace_evaluated_names(root, model);
  });
}

}  // namespace apps
