//! Sound for speech recognition.
