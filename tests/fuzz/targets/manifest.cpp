// A checkpoint's manifest: as it is, and with a corrected checksum, because otherwise no mutation
// would pass the checksum. A manifest that names no files is opened as a model, too. The input is
// also parsed as a local pointer, the file next to checkpoints that names a checkpoint elsewhere.
#include <mpt/hf/model_source.hpp>
#include <parallel/checkpoint/format/manifest.hpp>
#include <parallel/checkpoint/local/local_pointer.hpp>
#include <parallel/core/hexadecimal.hpp>

#include "../support.hpp"
#include "../targets.hpp"

void fuzz::manifest(std::string_view input) {
  namespace pc = parallel::checkpoint;
  static scratch const folder;
  refused([&] { static_cast<void>(pc::parse_manifest(input, "manifest.json")); });
  refused([&] {
    auto const read = pc::parse_local_pointer(input, "local.json");
    ensure(pc::parse_local_pointer(pc::format_local_pointer(read), "printed") == read,
           "a pointer survives being printed and parsed");
  });
  constexpr auto tail = pc::detail::checksum_head.size() + 16 + pc::detail::checksum_tail.size();
  auto const body = input.substr(0, input.rfind(pc::detail::checksum_head));
  auto const text =
      parallel::concat(body, pc::detail::checksum_head, parallel::hexadecimal(pc::checksum(body)),
                       pc::detail::checksum_tail);
  ensure(text.size() == body.size() + tail, "a checksum has 16 digits");
  bool complete = false;
  refused([&] {
    auto const read = pc::parse_manifest(text, "manifest.json");
    auto const parsed_again = pc::parse_manifest(pc::format_manifest(read, "printed"), "printed");
    ensure(parsed_again.state == read.state && parsed_again.slices.files == read.slices.files,
           "a manifest survives being printed and parsed");
    complete = read.slices.files.empty();
  });
  if (!complete) return;
  static_cast<void>(folder.file("ep0-ba1/manifest.json", text));
  refused([&] { mpt::model_source const source(folder.path() / "ep0-ba1"); });
}
