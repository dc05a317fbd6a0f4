// A file as torch.save writes it: a zip file with a pickle and the bytes of tensors.
#include <algorithm>

#include <mpt/config/model/hf.hpp>
#include <mpt/hf/torch_file.hpp>

#include "../support.hpp"
#include "../targets.hpp"

void fuzz::torch_file(std::string_view input) {
  static scratch const folder;
  auto const path = folder.file("m.bin", input);
  refused([&] {
    mpt::hf::torch_file const file(path);
    for (auto const& named : file.tensors()) {
      auto const& tensor = named.second;
      ensure(
          tensor.size() <= static_cast<parallel::index>(input.size()) || !tensor.bytes->is_stored,
          "a tensor has no more elements than the file has bytes");
      if (!parallel::checkpoint::is_real(tensor.type)) continue;
      std::vector<float> values(
          static_cast<std::size_t>(std::min<parallel::index>(tensor.size(), 100)));
      refused([&] { file.read(tensor, 0, std::span(values)); });
    }
    if (file.config()) refused([&] { (void)mpt::from_hf_json(*file.config(), "fuzz"); });
  });
}
