#include <mpt/hf/export.hpp>

#include <algorithm>
#include <system_error>
#include <utility>

namespace mpt::hf {
namespace {

namespace pc = parallel::checkpoint;

[[nodiscard]] std::uint64_t bytes_of(named_shape const& tensor, std::size_t width) {
  auto const location = parallel::concat("export of \"", tensor.name, "\"");
  return static_cast<std::uint64_t>(pc::checked_volume(tensor.extents, width, location)) * width;
}

/// Divides the tensors into files of at most `max_bytes`; a larger tensor gets its own file.
[[nodiscard]] std::vector<detail::shard> plan_shards(std::span<named_shape const> tensors,
                                                     std::size_t width, std::uint64_t max_bytes,
                                                     std::string const& stem) {
  std::vector<detail::shard> shards;
  std::uint64_t shard_bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto const bytes = bytes_of(tensors[i], width);
    if (shards.empty() ||
        (shard_bytes != 0 && bytes > max_bytes - std::min(shard_bytes, max_bytes))) {
      shards.push_back({i, i, {}});
      shard_bytes = 0;
    }
    shards.back().end = i + 1;
    shard_bytes += bytes;
  }
  auto const five_digits = [](std::size_t number) {
    auto digits = std::to_string(number);
    return digits.insert(0, digits.size() < 5 ? 5 - digits.size() : 0, '0');
  };
  for (std::size_t i = 0; i < shards.size(); ++i)
    shards[i].file = shards.size() == 1
                         ? stem + ".safetensors"
                         : parallel::concat(stem, "-", five_digits(i + 1), "-of-",
                                            five_digits(shards.size()), ".safetensors");
  return shards;
}

void write_shard(std::filesystem::path const& path, std::span<named_shape const> tensors,
                 tensor_source const& source, export_options const& options) {
  constexpr parallel::index chunk = parallel::index{1} << 20;
  std::vector<pc::tensor_declaration> declarations;
  for (auto const& [name, extents] : tensors)
    declarations.push_back({options.form.prefix + name, element_type_of(options.type), extents});
  pc::safetensors_writer writer(path, declarations,
                                {.metadata = options.metadata, .on_action = options.on_action});
  std::vector<float> values;
  detail::value_converter convert(options.type);
  for (auto const& [name, extents] : tensors) {
    auto const size = pc::checked_volume(extents, sizeof(float), name);
    for (parallel::index begin = 0; begin < size; begin += chunk) {
      values.resize(static_cast<std::size_t>(std::min(chunk, size - begin)));
      source(name, begin, values);
      writer.append(options.form.prefix + name, convert(name, values));
    }
  }
  writer.finish();
}

/// The small files, content by name: configuration, tokenizer and extra files.
[[nodiscard]] std::map<std::string, std::string> small_files(export_options const& options) {
  constexpr std::uint64_t max_bytes = std::uint64_t{1} << 30;
  namespace fs = std::filesystem;
  auto files = options.extra_files;
  auto config = options.config;
  folder_form const model;
  if (options.form.config_file == model.config_file)
    config[config.contains("dtype") ? "dtype" : "torch_dtype"] = torch_name(options.type);
  files[options.form.config_file] = config.dump(2) + "\n";
  if (options.generation_config)
    files["generation_config.json"] = options.generation_config->dump(2) + "\n";
  std::error_code ignored;
  if (fs::is_directory(options.tokenizer, ignored)) {
    for (auto const name : tokenizer_files)
      if (fs::exists(options.tokenizer / name, ignored))
        files.try_emplace(std::string(name),
                          parallel::read_text_file(options.tokenizer / name, max_bytes));
    parallel::require(files.contains("tokenizer.json") || files.contains("vocab.json"),
                      options.tokenizer.native(), ": this folder has no tokenizer.json");
  } else if (!options.tokenizer.empty()) {
    files.try_emplace("tokenizer.json", parallel::read_text_file(options.tokenizer, max_bytes));
  }
  for (auto const& [name, content] : files)
    parallel::require(parallel::is_plain_name(name), "export: \"", name,
                      "\" is not a plain file name");
  return files;
}

/// Whether `folder` looks like an export of this form: empty, or only files, among them the
/// configuration. Replacing such a folder loses no subfolders of the user's.
[[nodiscard]] bool is_export_folder(std::filesystem::path const& folder, folder_form const& form) {
  std::error_code problem;
  auto const entries = std::filesystem::directory_iterator(folder, problem);
  if (problem) return false;
  bool is_empty = true;
  bool has_only_files = true;
  for (auto const& entry : entries) {
    is_empty = false;
    has_only_files = has_only_files && entry.is_regular_file(problem) && !entry.is_symlink(problem);
  }
  return is_empty || (has_only_files && parallel::files::exists(folder / form.config_file));
}

}  // namespace

export_folder::export_folder(std::filesystem::path const& folder,
                             std::span<named_shape const> tensors, export_options options)
    : target_(target_of(folder)), tensors_(tensors), options_(std::move(options)) {
  namespace pc = parallel::checkpoint;
  using parallel::require;
  require(target_.has_filename(), folder.native(), ": cannot be exported to");
  require(!tensors.empty(), folder.native(), ": no tensors to export");
  require(options_.config.is_object(), folder.native(), ": config must be a JSON object");
  require(options_.max_shard_bytes > 0, folder.native(), ": max_shard_bytes must be positive");
  small_files_ = small_files(options_);
  shards_ = shards_of(tensors, options_);
  index_json_ = make_index_json(folder);

  parallel::files::make_folders(target_.parent_path());
  auto const target_name = target_.filename().native();
  lock_.emplace(target_.parent_path() / ("." + target_name + ".lock"), folder);
  pc::remove_leftovers(target_.parent_path(),
                       [&](std::string_view name) { return name == target_name; });
  std::error_code ignored;
  is_target_empty_ = std::filesystem::is_directory(target_, ignored) &&
                     std::filesystem::is_empty(target_, ignored);
  if (parallel::files::exists(target_) && !is_target_empty_) {
    require(options_.existing == pc::if_exists::replace, folder.native(),
            ": exists already; choose another folder, or replace it (convert: --replace; "
            "hf_checkpointer: overwrite: true)");
    require(is_export_folder(target_, options_.form), folder.native(),
            ": is not a folder that an export wrote; it is not replaced");
  }
  parallel::files::make_folder(temporary());
  has_temporary_ = true;
}

export_folder::~export_folder() {
  std::error_code ignored;
  if (has_temporary_) std::filesystem::remove_all(temporary(), ignored);
}

std::filesystem::path export_folder::target_of(std::filesystem::path const& folder) {
  parallel::require(!folder.empty(), "export: no folder given");
  auto target = std::filesystem::absolute(folder).lexically_normal();
  return target.has_filename() ? target : target.parent_path();  // "out/"
}

std::filesystem::path export_folder::temporary_of(std::filesystem::path const& folder) {
  return parallel::checkpoint::temporary_name(target_of(folder), 0);
}

std::vector<detail::shard> export_folder::shards_of(std::span<named_shape const> tensors,
                                                    export_options const& options) {
  return plan_shards(tensors, parallel::checkpoint::size_of(element_type_of(options.type)),
                     options.max_shard_bytes, options.form.weights);
}

void export_folder::finish() {
  namespace pc = parallel::checkpoint;
  if (shards_.size() > 1)
    parallel::write_text_file(temporary() / (options_.form.weights + ".safetensors.index.json"),
                              index_json_, options_.on_action);
  for (auto const& [name, content] : small_files_)
    parallel::write_text_file(temporary() / name, content, options_.on_action);
  pc::publish_folder(temporary(), target_,
                     is_target_empty_ ? pc::if_exists::replace : options_.existing,
                     options_.on_action);
  has_temporary_ = false;
}

std::string export_folder::make_index_json(std::filesystem::path const& folder) const {
  nlohmann::ordered_json out;
  auto const width = parallel::checkpoint::size_of(element_type_of(options_.type));
  std::uint64_t total = 0;
  for (auto const& tensor : tensors_) total += bytes_of(tensor, width);
  out["metadata"]["total_size"] = total;
  for (auto const& [begin, end, file] : shards_)
    for (auto const& tensor : tensors_.subspan(begin, end - begin))
      out["weight_map"][options_.form.prefix + tensor.name] = file;
  parallel::require(out["weight_map"].size() == tensors_.size(), folder.native(),
                    ": two tensors have the same name");
  return out.dump(2) + "\n";
}

void hf_export(std::filesystem::path const& folder, std::span<named_shape const> tensors,
               tensor_source const& source, export_options const& options) {
  export_folder folder_writer(folder, tensors, options);
  for (auto const& [begin, end, file] : folder_writer.shards())
    write_shard(folder_writer.temporary() / file, tensors.subspan(begin, end - begin), source,
                options);
  folder_writer.finish();
}

}  // namespace mpt::hf

namespace mpt::hf::detail {

std::span<std::byte const> value_converter::operator()(std::string const& name,
                                                       std::span<float const> values) {
  if (type_ == precision::fp32) return std::as_bytes(values);
  converted_.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (type_ == precision::bf16) {
      converted_[i] = parallel::bf16(values[i]).bits;
    } else {
      converted_[i] = pc::float_to_half(values[i]);
      parallel::require(!pc::overflows_half(values[i]), "tensor \"", name, "\" has the value ",
                        values[i],
                        ", which float16 cannot hold (its largest is 65504); export it as "
                        "bfloat16 or float32");
    }
  return std::as_bytes(std::span(converted_));
}

}  // namespace mpt::hf::detail
