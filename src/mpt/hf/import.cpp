#include <mpt/hf/import.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <mpt/hf/is_model.hpp>

namespace mpt::hf {

hf_import::hf_import(std::filesystem::path folder) : folder_(std::move(folder)) {
  bool const is_file = is_torch_file(folder_);
  if (!is_file)
    config_ = read_config(folder_);  // first, since its errors describe a wrong folder best
  tensors_.emplace(folder_);
  if (!is_file) return;
  auto const found = tensors_->config();
  parallel::require(found.has_value(), folder_.native(),
                    ": does not say which model it holds, as a Composer checkpoint of LLM "
                    "Foundry does; put it into a folder as pytorch_model.bin with its "
                    "config.json");
  config_ = *found;
}

std::optional<std::filesystem::path> hf_import::tokenizer() const {
  auto path = folder_ / "tokenizer.json";
  if (!parallel::files::exists(path)) return std::nullopt;
  return path;
}

void hf_import::require_tensors(std::span<named_shape const> expected,
                                std::set<std::string> const& ignored) const {
  std::vector<std::string> problems;
  std::set<std::string> known(ignored);
  for (auto const& [name, extents] : expected) {
    known.insert(name);
    if (!tensors_->contains(name)) {
      problems.push_back(parallel::concat("\"", name, "\" is missing"));
      continue;
    }
    auto const& found = tensors_->shape_of(name);
    if (found != extents)
      problems.push_back(parallel::concat("\"", name, "\" has shape ",
                                          parallel::checkpoint::shape_text(found), ", expected ",
                                          parallel::checkpoint::shape_text(extents)));
    if (!parallel::checkpoint::is_real(tensors_->type_of(name)))
      problems.push_back(parallel::concat("\"", name, "\" has elements of type ",
                                          printable(tensors_->type_name_of(name))));
  }
  for (auto const& name : tensors_->names())
    if (!known.contains(name))
      problems.push_back(parallel::concat("\"", printable(name), "\" is not known to this model"));
  if (problems.empty()) return;
  auto message = folder_.native() + ": its tensors do not fit its config.json: ";
  for (std::size_t i = 0; i < std::min<std::size_t>(problems.size(), 10); ++i)
    message += (i == 0 ? "" : "; ") + problems[i];
  if (problems.size() > 10) message += parallel::concat("; and ", problems.size() - 10, " more");
  parallel::fail(message);
}

void hf_import::require_same(std::string const& original, std::string const& copy) const {
  if (!tensors_->contains(copy)) return;
  auto const& extents = tensors_->shape_of(original);
  bool is_equal = extents == tensors_->shape_of(copy);
  auto const size = parallel::checkpoint::checked_volume(extents, sizeof(float), original);
  constexpr parallel::index chunk = 1 << 18;
  std::vector<float> a;
  std::vector<float> b;
  for (parallel::index begin = 0; is_equal && begin < size; begin += chunk) {
    a.resize(static_cast<std::size_t>(std::min(chunk, size - begin)));
    b.resize(a.size());
    tensors_->read(original, begin, std::span(a));
    tensors_->read(copy, begin, std::span(b));
    is_equal = a == b;
  }
  parallel::require(is_equal, folder_.native(), ": tensors \"", original, "\" and \"", copy,
                    "\" should be the same (tied embeddings), but differ");
}

nlohmann::json hf_import::read_config(std::filesystem::path const& folder) {
  namespace pc = parallel::checkpoint;
  auto const path = folder / "config.json";
  auto out = pc::parse_json(parallel::read_text_file(path, std::uint64_t{1} << 24), path.native());
  parallel::require(out.is_object(), path.native(), ": must be a JSON object");
  return out;
}

}  // namespace mpt::hf
