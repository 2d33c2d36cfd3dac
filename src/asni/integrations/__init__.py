"""Callbacks for training frameworks, each an extra of the package; nothing else imports a framework."""
