"""Facts about models from the headers of GGUF files, whose keys are read as llama.cpp reads them."""
