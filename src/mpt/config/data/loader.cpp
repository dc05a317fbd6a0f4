#include <mpt/config/data/loader.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

#include <mpt/config/model.hpp>
#include <mpt/net/remote_folder.hpp>
#include <mpt/yaml/scalar.hpp>

namespace mpt {
namespace {

/// Reports the keys of a shuffle that have no effect because of other settings.
void report_unused_shuffle_keys(config_reader& dataset, loader_config const& loader,
                                bool is_evaluation) {
  constexpr std::string_view in_order = "evaluation takes what it takes in the order it has";
  if (loader.shuffle && is_evaluation) dataset.report_without_effect("shuffle", in_order);
  bool const shuffles = loader.shuffle && !is_evaluation;
  std::string_view const reason = is_evaluation ? in_order : "shuffle is false";
  bool const has_weights =
      loader.epoch_size || std::ranges::any_of(loader.streams, [](auto const& stream) {
        return stream.weight != data::stream_weight{};
      });
  if (!shuffles && !has_weights) dataset.report_without_effect("shuffle_seed", reason);
  if (loader.finetuning) return;  // the caller has reported the other keys
  if (!shuffles)
    dataset.report_all_without_effect({"shuffle_algo", "shuffle_block_size"}, reason);
  else if (loader.reach != shuffle_reach::block)
    dataset.report_without_effect("shuffle_block_size", "belongs to py1b, py1br and py1e");
}

}  // namespace

std::string eval_loader_name(loader_config const& loader) {
  return loader.label.empty() ? "eval_loader" : "eval_loader " + loader.label;
}

bool is_remote(std::string_view path) {
  auto const colon = path.find("://");
  if (colon == std::string_view::npos || colon == 0) return false;
  for (char const c : path.substr(0, colon))
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
          c == '-' || c == '.'))
      return false;
  return true;
}

namespace {

constexpr std::string_view no_download = "nothing is downloaded";

/// Reads how often and how long downloads are tried.
void read_attempts(config_reader& data, stream_config& out) {
  out.download_retry = data.get<std::int64_t>("download_retry", out.download_retry);
  data.check("download_retry", out.download_retry >= 0 && out.download_retry <= 1000,
             "must be from 0 to 1000, found ", out.download_retry);
  out.download_timeout = data.get<double>("download_timeout", out.download_timeout);
  data.check("download_timeout", out.download_timeout >= 1 && out.download_timeout <= 86400,
             "must be from 1 to 86400 seconds, found ", out.download_timeout);
}

/// Reads or reports the keys of downloads that a stream itself has.
void read_download_keys(config_reader& data, bool is_downloaded, stream_config& out) {
  auto given = out;
  read_attempts(data, given);
  if (is_downloaded) {
    out = std::move(given);
    data.refuse_unsupported("keep_zip", "what is downloaded is kept decompressed", {"false"});
  } else {
    stream_config const without_keys;
    out.download_retry = without_keys.download_retry;
    out.download_timeout = without_keys.download_timeout;
    data.report_all_without_effect({"download_retry", "download_timeout"}, no_download);
    data.accept_without_effect("keep_zip", no_download);
  }
  data.accept_without_effect("validate_hash", "what an index has checksums of is always checked");
}

/// Reads the keys of downloads that all streams of a loader share.
void read_cache_keys(config_reader& dataset, loader_config& loader) {
  auto const limit = dataset.get<std::string>("cache_limit", "");
  auto const bytes = parse_bytes(limit);
  dataset.check("cache_limit", limit.empty() || bytes,
                "expected a size such as 10gb or 500000000, found '", printable(limit), "'");
  auto const samples = dataset.optional<std::int64_t>("predownload");
  dataset.check("predownload", samples.value_or(1) > 0, "must be above 0, found ",
                samples.value_or(1));
  if (std::ranges::any_of(loader.streams,
                          [](auto const& stream) { return is_remote(stream.remote); })) {
    if (!limit.empty()) loader.cache_limit = bytes;
    loader.predownload = samples;
  } else {
    dataset.report_all_without_effect({"cache_limit", "predownload"}, no_download);
  }
}

}  // namespace

stream_config read_stream(config_reader& data, stream_config defaults) {
  auto out = std::move(defaults);
  out.remote = data.get<std::string>("remote", "");
  bool const is_downloaded = is_remote(out.remote);
  data.check("remote", !is_downloaded || net::is_downloadable(out.remote),
             "expected a folder on this machine, or an address of http, https or s3, found '",
             printable(out.remote), "'");
  out.local = out.remote.empty() || is_downloaded ? data.required<std::string>("local")
                                                  : data.get<std::string>("local", out.remote);
  data.check("local", !is_remote(out.local), "expected a folder on this machine, found '",
             printable(out.local),
             "'; give the address as remote, and as local the folder that its shards come into");
  data.check("local", !out.local.empty(), "expected a folder on this machine, found ''");
  out.split = data.get<std::string>("split", std::move(out.split));
  data.check("split",
             out.split.find('/') == std::string::npos && out.split != ".." && out.split != ".",
             "expected the name of a subfolder, found '", printable(out.split), "'");
  read_download_keys(data, is_downloaded, out);
  return out;
}

std::vector<stream_config> read_streams(config_reader& data, bool finetuning) {
  config_node const* const node = data.raw("streams");
  std::vector<stream_config> out;
  if (node == nullptr || node->keys.empty()) return out;
  for (std::string_view const key : {"local", "remote"})
    data.check(key, data.get<std::string>(key, "").empty(),
               "is given with streams; give the folder of each stream there");
  stream_config defaults{.split = data.get<std::string>("split", "")};
  read_attempts(data, defaults);
  auto streams = data.section("streams");
  for (auto const& member : node->keys) {
    auto stream = streams.section(member.name);
    defaults.name = member.name;
    out.push_back(read_stream(stream, defaults));
    if (finetuning) {
      constexpr std::string_view advice = "every example comes once an epoch: leave it out";
      for (std::string_view const key : {"proportion", "repeat"})
        stream.refuse_unsupported(key, advice, {"1"});
      stream.refuse_unsupported("choose", advice);
    }
    auto& weight = out.back().weight;
    weight.proportion = stream.optional<double>("proportion");
    weight.repeat = stream.optional<double>("repeat");
    if (auto const choose = stream.optional<std::int64_t>("choose")) {
      stream.check("choose", *choose >= 0, "must not be negative, found ", *choose);
      weight.choose = static_cast<std::uint64_t>(*choose);
    }
    stream.finish();
  }
  streams.finish();
  bool const is_downloaded =
      std::ranges::any_of(out, [](auto const& stream) { return is_remote(stream.remote); });
  read_download_keys(data, is_downloaded, defaults);
  return out;
}

namespace {

/// Reads the keys of a loader other than its data set.
void read_loader_keys(config_reader& reader, loader_defaults const& defaults,
                      loader_config& loader) {
  loader.label = reader.get<std::string>("label", "");
  if (defaults.drop_last)
    reader.report_without_effect("label", "it tells evaluation sets apart, not what is trained on");
  if (reader.get("drop_last", defaults.drop_last) != defaults.drop_last)
    reader.report_without_effect(
        "drop_last", defaults.drop_last ? "training leaves out an epoch's last batch where "
                                          "it is not full"
                                        : "evaluation takes all there is");
  for (std::string_view const key :
       {"num_workers", "pin_memory", "prefetch_factor", "persistent_workers", "timeout"})
    reader.accept_without_effect(key, "batches are read ahead without worker processes");
}

/// Reads where the samples of a data set are, and how many of each stream an epoch has. Returns
/// whether the key `streams` names streams.
bool read_sources(config_reader& dataset, bool finetuning, bool has_hf_name,
                  loader_config& loader) {
  loader.streams = read_streams(dataset, finetuning);
  bool const has_streams = !loader.streams.empty();
  dataset.check("hf_name",
                !finetuning || has_hf_name || has_streams || dataset.has_key("local") ||
                    dataset.has_key("remote"),
                "missing; give a file or folder of prompts and responses, or local, an MDS set of "
                "them");
  dataset.check(
      "hf_name",
      !(has_hf_name && (has_streams || dataset.has_key("local") || dataset.has_key("remote"))),
      "is given with local, remote or streams; the data are one or the other");
  if (!has_streams && !has_hf_name) loader.streams.push_back(read_stream(dataset, {}));
  if (has_hf_name) {
    for (std::string_view const key : {"local", "remote"}) static_cast<void>(dataset.raw(key));
    stream_config no_stream;
    read_download_keys(dataset, false, no_stream);
  } else if (finetuning) {
    dataset.report_without_effect("hf_kwargs", "belongs to hf_name");
  }
  read_cache_keys(dataset, loader);
  if (finetuning) {
    dataset.refuse_unsupported("epoch_size", "an epoch is every example once: leave it out");
    for (std::string_view const key : {"shuffle_algo", "shuffle_block_size"})
      dataset.accept_without_effect(key, "examples are shuffled over the whole set");
    for (std::string_view const key : {"eos_token_id", "bos_token_id"})
      dataset.accept_without_effect(key, "examples are told apart without separators");
  }
  if (auto const size = dataset.optional<std::int64_t>("epoch_size")) {
    dataset.check("epoch_size", *size > 0, "must be above 0, found ", *size);
    loader.epoch_size = static_cast<std::uint64_t>(*size);
  }
  std::vector<data::stream_weight> weights;
  for (auto const& stream : loader.streams) weights.push_back(stream.weight);
  try {
    if (!weights.empty()) data::require_valid_weights(weights, loader.epoch_size);
  } catch (parallel::error const& problem) {
    dataset.fail("streams", problem.what());
  }
  return has_streams;
}

/// Reads how the samples of a data set are shuffled.
void read_shuffle(config_reader& dataset, bool finetuning, bool evaluates, loader_config& loader) {
  loader.shuffle = dataset.get("shuffle", loader.shuffle);
  auto const seed = dataset.get<std::int64_t>("shuffle_seed", finetuning ? 0 : 9176);
  dataset.check("shuffle_seed", seed >= 0, "must not be negative, found ", seed);
  loader.shuffle_seed = static_cast<std::uint64_t>(seed);
  auto const algorithm =
      dataset.one_of("shuffle_algo", "py1e", {"naive", "py1b", "py1br", "py1e", "py1s", "py2s"});
  if (algorithm == "naive") loader.reach = shuffle_reach::epoch;
  if (algorithm == "py1s" || algorithm == "py2s") loader.reach = shuffle_reach::shard;
  loader.shuffle_block_size = dataset.optional<std::int64_t>("shuffle_block_size");
  dataset.check("shuffle_block_size", loader.shuffle_block_size.value_or(1) >= 1,
                "must be above 0, found ", loader.shuffle_block_size.value_or(1));
  report_unused_shuffle_keys(dataset, loader, evaluates);
}

/// Reads the keys of LLM Foundry's and Streaming's data sets that have no effect here, and those
/// that are not supported.
void read_remaining_dataset_keys(config_reader& dataset, bool mixes_streams) {
  if (mixes_streams) {
    dataset.refuse_unsupported("batching_method", "streams are mixed evenly", {"random"});
    dataset.refuse_unsupported("sampling_method", "every sample comes equally often over epochs",
                               {"balanced"});
  } else {
    for (std::string_view const key : {"batching_method", "sampling_method"})
      dataset.accept_without_effect(key, "there is one stream, every sample of which comes once");
  }
  dataset.refuse_unsupported(
      "mlm_probability", "tokens are predicted from those before, none is masked: leave it blank");
  dataset.refuse_unsupported("replication", "leave it blank", {"1"});
  dataset.refuse_unsupported("stream_name", "leave it blank", {"stream"});
  dataset.refuse_unsupported("stream_config", "leave it blank");
  for (std::string_view const key :
       {"num_canonical_nodes", "partition_algo", "sampling_granularity", "batch_size"})
    dataset.accept_without_effect(key, "the order is our own and the same for any number of ranks");
  dataset.accept_without_effect("allow_unsafe_types", "pickled samples are never read");
}

/// Reads the token that separates texts.
void read_separators(config_reader& dataset, loader_config& loader) {
  for (auto const& [key, field] : {std::pair{"eos_token_id", &loader.eos_token_id},
                                   std::pair{"bos_token_id", &loader.bos_token_id}})
    if (auto const id = dataset.optional<std::int64_t>(key)) {
      dataset.check(key, *id >= 0 && *id < largest_vocab, "expected a token's id, found ", *id);
      *field = static_cast<std::int32_t>(*id);
    }
  dataset.check(
      "bos_token_id", !(loader.eos_token_id && loader.bos_token_id),
      "give eos_token_id if texts end with a token, or bos_token_id if they begin with one, "
      "not both");
}

}  // namespace

loader_config read_loader(config_reader reader, loader_defaults const& defaults) {
  loader_config loader;
  bool const finetuning = reader.one_of("name", "text", {"text", "finetuning"}) == "finetuning";
  read_loader_keys(reader, defaults, loader);
  auto dataset = reader.section("dataset");
  if (finetuning)
    loader.finetuning = detail::read_finetuning(dataset);
  else
    detail::refuse_finetuning(dataset);
  bool const has_hf_name = finetuning && !loader.finetuning->name.empty();
  bool const has_streams = read_sources(dataset, finetuning, has_hf_name, loader);
  read_shuffle(dataset, finetuning, !defaults.drop_last, loader);
  loader.max_seq_len = dataset.get("max_seq_len", defaults.max_seq_len);
  dataset.check("max_seq_len", loader.max_seq_len >= 2 && loader.max_seq_len <= largest_seq_len,
                "must be from 2 to ", largest_seq_len, ", found ", loader.max_seq_len);
  loader.token_encoding_type =
      dataset.one_of("token_encoding_type", loader.token_encoding_type,
                     {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"});
  if (has_hf_name) dataset.report_without_effect("token_encoding_type", "belongs to MDS sets");
  read_remaining_dataset_keys(dataset, has_streams || loader.epoch_size);
  read_separators(dataset, loader);
  dataset.finish();
  reader.finish();
  return loader;
}

std::vector<loader_config> read_eval_loaders(config_reader& parent,
                                             loader_defaults const& defaults) {
  std::vector<loader_config> loaders;
  config_node const* const node = parent.raw("eval_loader");
  if (node == nullptr) return loaders;
  if (!node->is_list()) {
    loaders.push_back(read_loader(parent.section("eval_loader"), defaults));
    return loaders;
  }
  for (std::size_t i = 0; i < node->items.size(); ++i) {
    config_reader item(node->items[i], parallel::concat("eval_loader.", i), parent.report());
    loaders.push_back(read_loader(std::move(item), defaults));
    auto const& label = loaders.back().label;
    parallel::require(!label.empty(), node->items[i].location, ": eval_loader.", i,
                      ".label: missing; each loader of a list needs one");
    for (std::size_t k = 0; k < i; ++k)
      parallel::require(loaders[k].label != label, node->items[i].location, ": eval_loader.", i,
                        ".label: '", printable(label), "' is also the label of eval_loader.", k);
  }
  return loaders;
}

}  // namespace mpt
