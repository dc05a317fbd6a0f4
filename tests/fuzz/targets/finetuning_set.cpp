// A sample of an MDS set of finetuning rows: the first byte chooses the columns and the type of raw
// ids, the rest is the sample.
#include <mpt/finetune/chat.hpp>
#include <mpt/finetune/mds_rows.hpp>

#include "../support.hpp"
#include "../targets.hpp"

namespace {

mpt::data::mds_layout layout_of(unsigned choice) {
  struct columns {
    std::vector<std::string> names;
    std::vector<std::string_view> encodings;
  };
  static std::vector<columns> const choices = {
      {{"turns"}, {"json"}},
      {{"prompt", "response"}, {"str", "str"}},
      {{"messages"}, {"json"}},
      {{"input_ids", "labels"}, {"bytes", "bytes"}},
      {{"input_ids", "labels"}, {"ndarray", "ndarray:int32"}},
      {{"input_ids", "labels"}, {"ndarray:uint16:3", "ndarray:float32:1"}},
      {{"input_ids", "prompt"}, {"int", "str"}},
  };
  auto const& chosen = choices[choice % choices.size()];
  mpt::data::mds_layout out;
  out.names = chosen.names;
  for (auto const name : chosen.encodings)
    out.encodings.push_back(mpt::data::mds_encoding::parse(name));
  return out;
}

}  // namespace

void fuzz::finetuning_set(std::string_view input) {
  namespace ft = mpt::finetune;
  if (input.empty()) return;
  auto const choice = static_cast<unsigned>(static_cast<unsigned char>(input[0]));
  auto const layout = layout_of(choice);
  auto const& types = mpt::data::detail::mds_types;
  ft::id_options const options{
      .raw_type = types[choice / 8 % types.size()].type, .vocab_size = 300, .max_ids = 5};
  refused([&] {
    mpt::data::mds_sample const sample(layout, std::string(input.substr(1)), "set, sample 0");
    if (auto const turns = ft::turns_of(sample, options)) {
      for (auto const& one : *turns)
        for (auto const* const part : {&one.prompt, &one.response})
          for (auto const id : *part) ensure(id >= 0 && id < 300, "ids are of the vocabulary");
      return;
    }
    static_cast<void>(ft::format_row(ft::text_row(sample), sample.location()));
  });
}
