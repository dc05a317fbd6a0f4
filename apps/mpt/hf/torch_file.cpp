#include <mpt/hf/torch_file.hpp>

#include <algorithm>
#include <fstream>

namespace mpt::hf {

index torch_file::entry::size() const {
  return parallel::checkpoint::checked_volume(extents, 1, "a tensor");
}

torch_file::torch_file(std::filesystem::path const& path) : zip_(of_today(path)) {
  auto const* const code = find_pickle();
  parallel::require(code != nullptr, name(),
                    ": has no data.pkl, so that torch.save did not write it; save the model as "
                    "safetensors");
  auto const prefix = code->name.substr(0, code->name.size() - pickle_name.size());
  if (auto const* const order = zip_.find(prefix + "byteorder"); order != nullptr)
    parallel::require(zip_.read_all(*order, 16) == "little", name(),
                      ": its numbers are big-endian; save it on another machine");
  pickle const content(zip_.read_all(*code, max_pickle_bytes), name());
  std::array<std::string_view, 2> constexpr of_composer = {"state", "model"};
  auto const trained = content.find_path(of_composer);
  take_tensors(content, trained.value_or(content.root()), prefix);
  if (trained) take_config(content);
  parallel::require(!content.find_path(of_adapters), name(),
                    ": holds LoRA adapters alone, not the model beside which they stand; save "
                    "them in PEFT's form (save_pretrained) and give that folder as an adapter");
  parallel::require(!entries_.empty(), name(),
                    ": holds no dictionary of tensors; expected a model's state_dict or a "
                    "checkpoint of Composer");
}

std::string const& torch_file::name() const { return zip_.name(); }

std::filesystem::path const& torch_file::of_today(std::filesystem::path const& path) {
  constexpr std::string_view number = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20";
  std::array<char, number.size()> begin{};
  std::ifstream(path, std::ios::binary).read(begin.data(), begin.size());
  parallel::require(std::string_view(begin.data(), begin.size()) != number, path.native(),
                    ": is in the form that torch.save had before PyTorch 1.6, which is not read; "
                    "write it anew: torch.save(torch.load(FILE, weights_only=True), NEW_FILE)");
  return path;
}

zip_archive::member const* torch_file::find_pickle() const {
  for (auto const& member : zip_.members())
    if (member.name == pickle_name || member.name.ends_with("/data.pkl")) return &member;
  return nullptr;
}

parallel::checkpoint::element_type torch_file::type_of(std::string_view storage) {
  using enum parallel::checkpoint::element_type;
  if (storage == "FloatStorage") return f32;
  if (storage == "DoubleStorage") return f64;
  if (storage == "HalfStorage") return f16;
  if (storage == "BFloat16Storage") return bf16;
  if (storage == "LongStorage") return i64;
  if (storage == "IntStorage") return i32;
  if (storage == "ShortStorage") return i16;
  if (storage == "CharStorage") return i8;
  if (storage == "ByteStorage") return u8;
  return storage == "BoolStorage" ? boolean : unknown;
}

void torch_file::take_tensors(pickle const& content, pickle::id mapping,
                              std::string const& prefix) {
  auto const& parts = content.at(mapping).parts;
  if (content.at(mapping).what != kind::mapping) return;
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    auto const& key = content.at(parts[i]);
    auto const& value = content.at(parts[i + 1]);
    if (key.what != kind::text || value.what != kind::tensor) continue;
    std::string_view tensor = key.text;
    if (tensor.starts_with("model.")) tensor.remove_prefix(6);
    parallel::require(tensor.size() < 1000, name(), ": the name of a tensor is too long");
    bool const first = entries_.emplace(tensor, read_entry(content, value, tensor, prefix)).second;
    parallel::require(first, name(), ": two tensors are named \"", printable(tensor), "\"");
  }
}

torch_file::entry torch_file::read_entry(pickle const& content, pickle::value const& value,
                                         std::string_view tensor, std::string const& prefix) const {
  namespace pc = parallel::checkpoint;
  auto const where = parallel::concat(name(), ": tensor \"", printable(tensor), "\"");
  auto const& storage = content.at(value.parts[0]);
  entry out;
  out.type_name = content.at(storage.parts[0]).text.substr(std::string_view("torch.").size());
  out.type = type_of(out.type_name);
  out.first = value.integer;
  out.extents = integers(content, value.parts[1], where);
  auto const strides = integers(content, value.parts[2], where);
  auto const size =
      pc::checked_volume(out.extents, std::max<std::size_t>(1, pc::size_of(out.type)), where);
  parallel::require(strides.size() == out.extents.size(), where, ": has ", strides.size(),
                    " strides for ", out.extents.size(), " extents");
  index step = 1;
  for (std::size_t i = strides.size(); size > 0 && i-- > 0; step *= out.extents[i])
    parallel::require(out.extents[i] == 1 || strides[i] == step, where,
                      ": its elements are not in order; save tensor.contiguous()");
  out.bytes = zip_.find(parallel::concat(prefix, "data/", storage.text));
  parallel::require(out.bytes != nullptr, where, ": its bytes, data/", printable(storage.text),
                    ", are missing");
  auto const width = pc::size_of(out.type);
  auto const held = static_cast<index>(out.bytes->bytes / std::max<std::size_t>(1, width));
  parallel::require(storage.integer >= 0 && storage.integer <= held, where, ": its storage has ",
                    storage.integer, " elements, but bytes for ", held);
  parallel::require(out.first >= 0 && out.first <= held && size <= held - out.first, where,
                    ": reaches beyond its storage of ", held, " elements");
  return out;
}

std::vector<index> torch_file::integers(pickle const& content, pickle::id tuple,
                                        std::string const& where) {
  std::vector<index> out;
  parallel::require(content.at(tuple).parts.size() <= 16, where, ": has more than 16 extents");
  for (auto const part : content.at(tuple).parts) {
    parallel::require(content.at(part).what == kind::integer, where, ": an extent is no integer");
    out.push_back(content.at(part).integer);
  }
  return out;
}

void torch_file::take_config(pickle const& content) {
  std::array<std::string_view, 6> constexpr place = {"state", "integrations", "huggingface",
                                                     "model", "config",       "content"};
  auto const found = content.find_path(place);
  if (!found || content.at(*found).what != kind::mapping) return;
  std::size_t left = 10'000;  // values: what is shared is written out as often as it occurs
  config_ = json_of(content, *found, 32, left);
}

nlohmann::json torch_file::json_of(pickle const& content, pickle::id which, int depth,
                                   std::size_t& left) const {
  parallel::require(depth > 0 && left > 0, name(), ": the configuration in it is too large");
  --left;
  auto const& value = content.at(which);
  switch (value.what) {
    case kind::boolean: return value.integer != 0;
    case kind::integer: return value.integer;
    case kind::real: return value.real;
    case kind::text:
      parallel::require(value.text.size() <= 16384, name(),
                        ": a text of the configuration in it is too long");
      return value.text;
    case kind::list:
    case kind::tuple: {
      auto out = nlohmann::json::array();
      for (auto const part : value.parts) out.push_back(json_of(content, part, depth - 1, left));
      return out;
    }
    case kind::mapping: {
      auto out = nlohmann::json::object();
      for (std::size_t i = 0; i + 1 < value.parts.size(); i += 2) {
        auto const& key = content.at(value.parts[i]);
        if (key.what == kind::text && key.text.size() <= 1000)
          out[key.text] = json_of(content, value.parts[i + 1], depth - 1, left);
      }
      return out;
    }
    default: return nullptr;
  }
}

}  // namespace mpt::hf
