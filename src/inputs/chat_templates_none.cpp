#include <inputs/chat_templates.hpp>

mpt::template_engine apps::template_engine() { return {}; }
