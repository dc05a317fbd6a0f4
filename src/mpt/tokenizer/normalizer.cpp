#include <mpt/tokenizer/normalizer.hpp>

#include <mpt/tokenizer/metaspace.hpp>
#include <mpt/tokenizer/nfc.hpp>

namespace mpt {

bool text_normalizer::may_change(std::string_view text) const {
  if (prepend_mark && !text.empty()) return true;
  if (replace_spaces && text.find(' ') != std::string_view::npos) return true;
  return nfc && first_unstable(text) != text.size();
}

std::string text_normalizer::apply(std::string_view text) const {
  std::string out = nfc ? mpt::nfc(text) : std::string(text);
  if (prepend_mark && !out.empty()) out.insert(0, metaspace::mark);
  return replace_spaces ? metaspace::spell(out) : out;
}

}  // namespace mpt
